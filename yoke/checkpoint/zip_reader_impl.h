// The records of an uncompressed zip archive (PKWARE's APPNOTE 6.3.10, with zip64), as torch.save
// writes it. Nothing is extracted: a record is a piece of the mapped file.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>

#include "yoke/core/file.h"

namespace yoke {

class ZipReader {
 public:
  // Reads the directory. `name` stands for the file in errors. Throws Error(where, …) for an
  // archive that is truncated or damaged.
  ZipReader(std::shared_ptr<const MappedFile> file, std::string name, std::string where);

  static bool looks_like_zip(const MappedFile& file);

  bool contains(const std::string& record) const { return records_.count(record) > 0; }
  // The bytes of a record. Throws Error when there is none, or when it is compressed.
  std::string_view read(const std::string& record) const;
  // The first record, by name, that is `file` inside one folder ("archive/data.pkl"); "" if none.
  std::string find_in_folder(const std::string& file) const;

  const std::shared_ptr<const MappedFile>& file() const { return file_; }

 private:
  struct Record {
    uint64_t header = 0;  // offset of the local header
    uint64_t size = 0;
    uint64_t compressed_size = 0;
    uint16_t method = 0;
    uint16_t flags = 0;
  };

  [[noreturn]] void fail(const std::string& what) const;
  void read_directory(uint64_t offset, uint64_t size, uint64_t count);
  Record read_entry(const std::byte* entry, std::string_view extra) const;

  const std::shared_ptr<const MappedFile> file_;
  const std::string name_;
  const std::string where_;
  std::unordered_map<std::string, Record> records_;
};

}  // namespace yoke
