#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <utility>

#include "yoke/checkpoint/output_file_impl.h"
#include "yoke/core/error.h"
#include "yoke/core/file.h"

namespace yoke {
namespace {

// One write() call takes at most 2 GiB on Linux; smaller pieces let a signal come through.
constexpr size_t largest_write = size_t{64} << 20;

}  // namespace

OutputFile::OutputFile(std::filesystem::path path, std::string where)
    : path_(std::move(path)), where_(std::move(where)) {
  static std::atomic<unsigned> counter{0};
  temporary_ = path_.parent_path() / ("." + path_.filename().string() + ".tmp-" +
                                      std::to_string(::getpid()) + "-" + std::to_string(counter++));
  fd_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (fd_ < 0) fail("cannot create", errno);
}

OutputFile::~OutputFile() {
  if (fd_ >= 0) ::close(fd_);
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

void OutputFile::write(const void* data, size_t size) {
  const char* from = static_cast<const char*>(data);
  while (size > 0) {
    const ssize_t n = ::write(fd_, from, std::min(size, largest_write));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail("cannot write", errno);
    from += n;
    size -= size_t(n);
  }
}

void OutputFile::commit() {
  if (::fsync(fd_) != 0) fail("cannot flush", errno);
  // close() may report a late write error (NFS, quotas).
  if (::close(std::exchange(fd_, -1)) != 0) fail("cannot close", errno);
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) fail("cannot rename into place", errno);
  temporary_.clear();
  sync_path(path_.has_parent_path() ? path_.parent_path() : ".", where_);
}

void OutputFile::fail(const char* what, int code) const {
  std::string hint;
  if (code == ENOSPC || code == EDQUOT || code == EFBIG)
    hint = "free space on that disk, or another folder";
  if (code == EACCES || code == EPERM || code == EROFS) hint = "a folder that you may write to";
  throw Error(where_, path_.string() + ": " + what + " (" + std::strerror(code) + ")", hint);
}

}  // namespace yoke
