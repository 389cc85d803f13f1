// A file that is written piece by piece under a temporary name and appears whole.
//
//   OutputFile out("model.safetensors", "checkpoint.save");
//   out.write(bytes, size);
//   out.commit();
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace yoke {

class OutputFile {
 public:
  OutputFile(std::filesystem::path path, std::string where);
  ~OutputFile();  // without commit(): removes what was written
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  void write(const void* data, size_t size);
  void write(std::string_view text) { write(text.data(), text.size()); }
  // Flushes to the disk and renames into place.
  void commit();

 private:
  [[noreturn]] void fail(const char* what, int code) const;

  const std::filesystem::path path_;
  std::filesystem::path temporary_;
  const std::string where_;
  int fd_ = -1;
};

}  // namespace yoke
