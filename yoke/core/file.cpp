#include "yoke/core/file.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <set>
#include <utility>

#include "yoke/core/error.h"
#include "yoke/core/json.h"
#include "yoke/core/suggest.h"

namespace yoke {
namespace fs = std::filesystem;
namespace {

[[noreturn]] void fail(const std::string& where, const fs::path& path, const std::string& what,
                       int code, const std::string& hint = "") {
  std::string advice = hint;
  if (advice.empty()) {
    if (code == ENOSPC || code == EDQUOT) advice = "free space on that disk, or another folder";
    if (code == EACCES || code == EPERM || code == EROFS) advice = "a folder that you may write to";
  }
  throw Error(where, path.string() + ": " + what + " (" + std::strerror(code) + ")", advice);
}

class Descriptor {
 public:
  Descriptor(const fs::path& path, int flags, const std::string& where, const char* what)
      : fd_(::open(path.c_str(), flags | O_CLOEXEC, 0666)) {
    if (fd_ < 0) fail(where, path, what, errno);
  }
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }
  // close() may report a late write error (NFS, quotas).
  int close() { return ::close(std::exchange(fd_, -1)); }

 private:
  int fd_;
};

// A name that no other thread or process uses at the moment, hidden, beside the target. Kinds:
// "tmp", not written to the end; "old", about to change places with the target, or after it.
fs::path temporary_beside(const fs::path& target, const std::string& kind = "tmp") {
  static std::atomic<unsigned> counter{0};
  return target.parent_path() / ("." + target.filename().string() + "." + kind + "-" +
                                 std::to_string(::getpid()) + "-" + std::to_string(counter++));
}

// Whether a name of that kind was made by a process that does not live any more.
bool left_behind(const std::string& name, const fs::path& target, const std::string& kind) {
  const std::string start = "." + target.filename().string() + "." + kind + "-";
  if (!name.starts_with(start)) return false;
  const int pid = std::atoi(name.c_str() + start.size());
  return pid > 0 && pid != ::getpid() && ::kill(pid, 0) != 0 && errno == ESRCH;
}

// "out/" and "out" are the same folder; a trailing slash would put the temporary inside it.
fs::path without_trailing_slash(fs::path path) {
  path = fs::absolute(path).lexically_normal();
  return path.has_filename() ? path : path.parent_path();
}

std::set<std::string> manifest_files(const fs::path& folder, const std::string& where) {
  std::set<std::string> names;
  const fs::path path = folder / AtomicFolder::manifest_name;
  if (!fs::exists(path)) return names;
  const Json manifest = read_json(path, where);
  const auto files = manifest.find("files");
  if (files == manifest.end() || !files->is_array()) return names;
  for (const auto& file : *files)
    if (file.is_string()) names.insert(file.get<std::string>());
  names.insert(AtomicFolder::manifest_name);
  return names;
}

std::vector<std::string> entries_of(const fs::path& folder, const std::string& where) {
  std::vector<std::string> names;
  std::error_code code;
  for (fs::directory_iterator it(folder, code), end; !code && it != end; it.increment(code))
    names.push_back(it->path().filename().string());
  if (code) fail(where, folder, "cannot list the folder", code.value());
  std::sort(names.begin(), names.end());
  return names;
}

// What in `old` is not listed in its manifest, and has no namesake in `target`, moves there.
void carry_over(const fs::path& old, const fs::path& target, const std::string& where) {
  const auto ours = manifest_files(old, where);
  for (const auto& name : entries_of(old, where)) {
    if (ours.count(name) || fs::exists(target / name)) continue;
    if (::rename((old / name).c_str(), (target / name).c_str()) != 0)
      fail(where, target / name, "cannot keep the file", errno);
  }
}

}  // namespace

std::string read_file(const fs::path& path, const std::string& where) {
  if (fs::is_directory(path)) throw Error(where, path.string() + ": is a folder, expected a file");
  Descriptor file(path, O_RDONLY, where, "cannot open");
  std::string bytes;
  char buffer[1 << 16];
  for (;;) {
    const ssize_t n = ::read(file.get(), buffer, sizeof buffer);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail(where, path, "cannot read", errno);
    if (n == 0) return bytes;
    bytes.append(buffer, size_t(n));
  }
}

void write_file(const fs::path& path, std::string_view bytes, const std::string& where) {
  Descriptor file(path, O_WRONLY | O_CREAT | O_TRUNC, where, "cannot create");
  while (!bytes.empty()) {
    const ssize_t n = ::write(file.get(), bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail(where, path, "cannot write", errno);
    bytes.remove_prefix(size_t(n));
  }
  if (::fsync(file.get()) != 0) fail(where, path, "cannot flush", errno);
  if (file.close() != 0) fail(where, path, "cannot close", errno);
}

void write_file_atomic(const fs::path& path, std::string_view bytes, const std::string& where) {
  const fs::path target = without_trailing_slash(path);
  const fs::path temporary = temporary_beside(target);
  try {
    write_file(temporary, bytes, where);
    if (::rename(temporary.c_str(), target.c_str()) != 0)
      fail(where, target, "cannot rename into place", errno);
    sync_path(target.parent_path(), where);
  } catch (...) {
    ::unlink(temporary.c_str());
    throw;
  }
}

void sync_path(const fs::path& path, const std::string& where) {
  Descriptor file(path, O_RDONLY, where, "cannot open");
  if (::fsync(file.get()) != 0) fail(where, path, "cannot flush", errno);
}

MappedFile::MappedFile(const fs::path& path, const std::string& where) {
  if (fs::is_directory(path)) throw Error(where, path.string() + ": is a folder, expected a file");
  Descriptor file(path, O_RDONLY, where, "cannot open");
  struct stat info {};
  if (::fstat(file.get(), &info) != 0) fail(where, path, "cannot stat", errno);
  size_ = size_t(info.st_size);
  if (size_ == 0) return;
  // Private and writable: who writes through a tensor over it changes memory of this process, not
  // the file, instead of dying of SIGSEGV. Pages cost memory only once written.
  void* address =
      ::mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE, file.get(), 0);
  if (address == MAP_FAILED) fail(where, path, "cannot map", errno);
  data_ = static_cast<const std::byte*>(address);
}

MappedFile::~MappedFile() {
  if (data_) ::munmap(const_cast<std::byte*>(data_), size_);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

void AtomicFolder::check_target(const fs::path& target_path, const AtomicFolderOptions& options) {
  const fs::path target = without_trailing_slash(target_path);
  const std::string& where = options.where;
  std::error_code code;
  const auto status = fs::status(target, code);
  if (fs::exists(status)) {
    if (!fs::is_directory(status))
      throw Error(where, target.string() + ": exists and is not a folder", "another --output");
    const auto entries = entries_of(target, where);
    if (!entries.empty() && !options.overwrite)
      throw Error(where,
                  target.string() + ": the folder holds files (" + join_names(entries, 3) + ")",
                  "another output folder, or .overwrite = true (--overwrite) to replace what yoke "
                  "wrote there");
    const auto ours = manifest_files(target, where);
    for (const char* name : {"config.json", "model.safetensors"})
      if (fs::exists(target / name) && !ours.count(name))
        throw Error(where,
                    (target / name).string() + ": was not written by yoke and would be replaced",
                    "another output folder");
  }
  fs::path parent = target.parent_path();
  while (!parent.empty() && !fs::exists(parent) && parent != parent.parent_path())
    parent = parent.parent_path();
  if (!fs::is_directory(parent))
    throw Error(where, parent.string() + ": is not a folder", "another output folder");
  if (::access(parent.c_str(), W_OK) != 0) fail(where, parent, "cannot write there", errno);
}

AtomicFolder::AtomicFolder(fs::path target, AtomicFolderOptions options)
    : target_(without_trailing_slash(std::move(target))), options_(std::move(options)) {
  check_target(target_, options_);
  std::error_code code;
  fs::create_directories(target_.parent_path(), code);
  if (code) fail(options_.where, target_.parent_path(), "cannot create the folder", code.value());
  temporary_ = temporary_beside(target_);
  fs::create_directory(temporary_, code);
  if (code) fail(options_.where, temporary_, "cannot create the folder", code.value());
}

AtomicFolder::~AtomicFolder() {
  std::error_code ignored;
  if (!committed_) fs::remove_all(temporary_, ignored);
}

void AtomicFolder::commit() {
  const std::string& where = options_.where;
  Json manifest;
  manifest["written_by"] = "yoke";
  manifest["files"] = entries_of(temporary_, where);
  write_file(temporary_ / manifest_name, manifest.dump(1) + "\n", where);
  sync_path(temporary_, where);
  check_target(target_, options_);  // it may have been filled while we wrote

  if (!fs::exists(target_)) {
    if (::rename(temporary_.c_str(), target_.c_str()) != 0)
      fail(where, target_, "cannot rename into place", errno);
  } else {
    // Swap, so that at every moment a whole folder stands under the name; then carry over what is
    // not ours and drop the rest. recover() does this for a process that is killed meanwhile.
    const fs::path old = temporary_beside(target_, "old");
    if (::rename(temporary_.c_str(), old.c_str()) != 0)
      fail(where, target_, "cannot rename", errno);
    temporary_ = old;
    if (::syscall(SYS_renameat2, AT_FDCWD, temporary_.c_str(), AT_FDCWD, target_.c_str(),
                  RENAME_EXCHANGE) != 0)
      fail(where, target_, "cannot swap into place", errno);
    committed_ = true;  // what stands under the temporary name now is not ours to lose
    carry_over(temporary_, target_, where);
    std::error_code code;
    fs::remove_all(temporary_, code);
  }
  committed_ = true;
  sync_path(target_.parent_path(), where);
}

void AtomicFolder::remove(const fs::path& target_path, const std::string& where) {
  const fs::path target = without_trailing_slash(target_path);
  const fs::path going = temporary_beside(target);
  if (::rename(target.c_str(), going.c_str()) != 0) fail(where, target, "cannot remove", errno);
  std::error_code code;
  fs::remove_all(going, code);
  if (code) fail(where, target, "cannot remove", code.value());
}

void AtomicFolder::recover(const fs::path& target_path, const std::string& where) {
  const fs::path target = without_trailing_slash(target_path);
  if (!fs::is_directory(target.parent_path())) return;
  for (const auto& name : entries_of(target.parent_path(), where)) {
    const fs::path left = target.parent_path() / name;
    const bool old = left_behind(name, target, "old");
    if (!old && !left_behind(name, target, "tmp")) continue;
    if (old && !fs::is_directory(target)) continue;
    if (old) carry_over(left, target, where);
    std::error_code ignored;
    fs::remove_all(left, ignored);
  }
}

}  // namespace yoke
