#include <algorithm>
#include <bit>
#include <cstring>

#include "yoke/checkpoint/mapped_tensor_impl.h"
#include "yoke/checkpoint/zip_reader_impl.h"
#include "yoke/core/error.h"

namespace yoke {
namespace {

static_assert(std::endian::native == std::endian::little, "the formats are little-endian");

constexpr uint32_t local_signature = 0x04034b50, entry_signature = 0x02014b50,
                   end_signature = 0x06054b50, end64_signature = 0x06064b50,
                   locator_signature = 0x07064b50;
constexpr size_t local_size = 30, entry_size = 46, end_size = 22, locator_size = 20,
                 end64_size = 56;

template <typename T>
T load(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

}  // namespace

bool ZipReader::looks_like_zip(const MappedFile& file) {
  return file.size() >= 4 && load<uint32_t>(file.data()) == local_signature;
}

ZipReader::ZipReader(std::shared_ptr<const MappedFile> file, std::string name, std::string where)
    : file_(std::move(file)), name_(std::move(name)), where_(std::move(where)) {
  const std::byte* data = file_->data();
  const size_t size = file_->size();
  if (size < end_size) fail("truncated: a zip archive of " + std::to_string(size) + " bytes");
  // The end record is followed by a comment of up to 65535 bytes.
  size_t at = size - end_size;
  const size_t lowest = at > 65535 ? at - 65535 : 0;
  while (load<uint32_t>(data + at) != end_signature) {
    if (at == lowest)
      fail("truncated: the zip archive has no directory at its end (" + std::to_string(size) +
           " bytes)");
    --at;
  }
  const std::byte* end = data + at;
  if (load<uint16_t>(end + 4) != load<uint16_t>(end + 6)) fail("the archive is split over files");
  uint64_t count = load<uint16_t>(end + 10);
  uint64_t directory_size = load<uint32_t>(end + 12);
  uint64_t directory = load<uint32_t>(end + 16);
  if (at >= locator_size && load<uint32_t>(end - locator_size) == locator_signature) {
    const uint64_t end64 = load<uint64_t>(end - locator_size + 8);
    if (end64 > at - locator_size || at - locator_size - end64 < end64_size ||
        load<uint32_t>(data + end64) != end64_signature)
      fail("the zip64 directory is damaged");
    count = load<uint64_t>(data + end64 + 32);
    directory_size = load<uint64_t>(data + end64 + 40);
    directory = load<uint64_t>(data + end64 + 48);
  }
  if (directory > size || directory_size > size - directory)
    fail("the zip directory lies outside the file");
  read_directory(directory, directory_size, count);
}

void ZipReader::read_directory(uint64_t offset, uint64_t size, uint64_t count) {
  if (count > size / entry_size) fail("the zip directory is shorter than its number of records");
  const std::byte* at = file_->data() + offset;
  for (uint64_t i = 0; i < count; ++i) {
    if (size < entry_size || load<uint32_t>(at) != entry_signature)
      fail("the zip directory is damaged at record " + std::to_string(i));
    const size_t name = load<uint16_t>(at + 28), extra = load<uint16_t>(at + 30),
                 comment = load<uint16_t>(at + 32);
    const size_t whole = entry_size + name + extra + comment;
    if (whole > size) fail("the zip directory is damaged at record " + std::to_string(i));
    const auto* text = reinterpret_cast<const char*>(at + entry_size);
    if (!records_.emplace(std::string(text, name), read_entry(at, {text + name, extra})).second)
      fail("the archive holds \"" + std::string(text, name) + "\" twice");
    at += whole;
    size -= whole;
  }
}

ZipReader::Record ZipReader::read_entry(const std::byte* entry, std::string_view extra) const {
  Record record;
  record.flags = load<uint16_t>(entry + 8);
  record.method = load<uint16_t>(entry + 10);
  record.compressed_size = load<uint32_t>(entry + 20);
  record.size = load<uint32_t>(entry + 24);
  record.header = load<uint32_t>(entry + 42);
  // zip64: the fields that are all ones stand in the extra field 1, in this order.
  while (extra.size() >= 4) {
    const auto* field = reinterpret_cast<const std::byte*>(extra.data());
    const size_t length = load<uint16_t>(field + 2);
    if (length > extra.size() - 4) fail("a zip extra field is damaged");
    if (load<uint16_t>(field) == 1) {
      size_t used = 0;
      for (uint64_t* value : {&record.size, &record.compressed_size, &record.header}) {
        if (*value != UINT32_MAX) continue;
        if (used + 8 > length) fail("a zip64 field is damaged");
        *value = load<uint64_t>(field + 4 + used);
        used += 8;
      }
    }
    extra.remove_prefix(4 + length);
  }
  return record;
}

std::string_view ZipReader::read(const std::string& name) const {
  const auto found = records_.find(name);
  if (found == records_.end()) fail("the archive has no record \"" + name + "\"");
  const Record& record = found->second;
  if (record.flags & 1) fail("record \"" + name + "\" is encrypted");
  if (record.method != 0 || record.size != record.compressed_size)
    throw Error(where_, name_ + ": record \"" + name + "\" is compressed",
                "the file that torch.save wrote: it does not compress");
  const size_t size = file_->size();
  if (record.header > size || size - record.header < local_size ||
      load<uint32_t>(file_->data() + record.header) != local_signature)
    fail("record \"" + name + "\" does not begin where the directory says");
  const std::byte* local = file_->data() + record.header;
  const uint64_t begin =
      record.header + local_size + load<uint16_t>(local + 26) + load<uint16_t>(local + 28);
  if (begin > size || record.size > size - begin)
    fail("truncated: record \"" + name + "\" asks for " + std::to_string(record.size) +
         " bytes beyond the end of the file");
  return {reinterpret_cast<const char*>(file_->data()) + begin, size_t(record.size)};
}

std::string ZipReader::find_in_folder(const std::string& file) const {
  std::string best;
  for (const auto& [name, record] : records_) {
    const size_t slash = name.find('/');
    if (slash == std::string::npos || name.compare(slash + 1, std::string::npos, file) != 0)
      continue;
    if (best.empty() || name < best) best = name;
  }
  return best;
}

void ZipReader::fail(const std::string& what) const {
  throw Error(where_, name_ + ": " + what, download_again);
}

}  // namespace yoke
