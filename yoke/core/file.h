// Files that appear whole or not at all, and files read without copying.
//
//   AtomicFolder folder("out", {.overwrite = false});
//   write_file(folder.path() / "config.json", text, "save");
//   folder.commit();            // until here "out" is as it was
//
// Every function throws Error with the path and the system's reason.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace yoke {

// The whole file as bytes.
std::string read_file(const std::filesystem::path& path, const std::string& where);

// Writes a file and fsyncs it; not atomic by itself (use inside an AtomicFolder).
void write_file(const std::filesystem::path& path, std::string_view bytes,
                const std::string& where);

// Writes to a temporary name beside `path`, fsyncs, renames.
void write_file_atomic(const std::filesystem::path& path, std::string_view bytes,
                       const std::string& where);

// Flushes a file or folder to the disk.
void sync_path(const std::filesystem::path& path, const std::string& where);

// A read-only memory map; empty files map to an empty view. Moves, does not copy.
class MappedFile {
 public:
  MappedFile(const std::filesystem::path& path, const std::string& where);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&&) = delete;
  const std::byte* data() const { return data_; }
  size_t size() const { return size_; }

 private:
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
};

struct AtomicFolderOptions {
  bool overwrite = false;  // replace the files that an earlier yoke wrote there (see manifest)
  std::string where = "save";
};

// A folder is filled under a temporary name beside the target and renamed at commit(). Every
// committed folder carries a manifest, "yoke.json", with the names of the files in it: with
// `overwrite` exactly these are replaced, and files of other origin stay where they are. Without it
// a target that holds anything is refused. Left without commit(), the temporary folder is removed.
class AtomicFolder {
 public:
  static constexpr const char* manifest_name = "yoke.json";

  AtomicFolder(std::filesystem::path target, AtomicFolderOptions options = {});
  ~AtomicFolder();
  AtomicFolder(const AtomicFolder&) = delete;
  AtomicFolder& operator=(const AtomicFolder&) = delete;

  const std::filesystem::path& path() const { return temporary_; }
  void commit();

  // Puts right what processes that are gone have left beside `target`: unfinished temporary folders
  // are removed, and files of other origin that a swap had not carried over yet come back.
  static void recover(const std::filesystem::path& target, const std::string& where);

  // Removes a folder; whoever looks meanwhile, or after a kill, sees all of it or nothing.
  static void remove(const std::filesystem::path& target, const std::string& where);

  // What the constructor checks, for callers that want to know before a long run.
  static void check_target(const std::filesystem::path& target, const AtomicFolderOptions& options);

 private:
  std::filesystem::path target_;
  std::filesystem::path temporary_;
  AtomicFolderOptions options_;
  bool committed_ = false;
};

}  // namespace yoke
