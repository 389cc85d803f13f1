#include "yoke/checkpoint/safetensors.h"

#include <c10/core/ScalarType.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <unordered_set>

#include "yoke/checkpoint/dtypes_impl.h"
#include "yoke/checkpoint/mapped_tensor_impl.h"
#include "yoke/core/error.h"
#include "yoke/core/json.h"

namespace yoke {
namespace {

constexpr uint64_t largest_header = 100'000'000;  // the limit of the safetensors library

struct HeaderTensor {
  std::string name;
  std::string dtype;
  std::vector<int64_t> shape;
  std::vector<uint64_t> offsets;
  bool has_shape = false;
};

// Takes the header apart while it is parsed, without a document: the text may be 100 MB, and a
// document of it many times that.
class HeaderReader : public nlohmann::json_sax<Json> {
 public:
  std::vector<HeaderTensor> tensors;
  Metadata metadata;
  std::string fault;  // what is wrong, in words

  bool null() override { return other("null"); }
  bool boolean(bool) override { return other("a boolean"); }
  bool number_float(number_float_t, const string_t&) override { return other("a fraction"); }
  bool binary(binary_t&) override { return other("binary data"); }
  bool number_integer(number_integer_t) override { return other("a negative number"); }

  bool number_unsigned(number_unsigned_t value) override {
    if (skipping_ > 0) return true;
    if (place_ == Place::shape) {
      if (value > (uint64_t{1} << 62)) return fail(quoted() + " has an impossible size");
      tensors.back().shape.push_back(int64_t(value));
      return true;
    }
    if (place_ == Place::offsets) {
      tensors.back().offsets.push_back(value);
      return true;
    }
    return other("a number");
  }

  bool string(string_t& value) override {
    if (skipping_ > 0) return true;
    if (place_ == Place::metadata) {
      metadata[key_] = value;
      return true;
    }
    if (place_ == Place::tensor && key_ == "dtype") {
      tensors.back().dtype = value;
      return true;
    }
    return other("a string");
  }

  bool start_object(size_t) override {
    if (skipping_ > 0) return deeper();
    if (place_ == Place::start) {
      place_ = Place::header;
      return true;
    }
    if (place_ == Place::header) {
      place_ = key_ == "__metadata__" ? Place::metadata : Place::tensor;
      if (place_ == Place::tensor) {
        tensors.emplace_back();
        tensors.back().name = key_;
      }
      keys_.clear();
      return true;
    }
    return unknown_field() ? deeper() : other("an object");
  }

  bool end_object() override {
    if (skipping_ > 0) return --skipping_, true;
    place_ = place_ == Place::header ? Place::end : Place::header;
    return true;
  }

  bool start_array(size_t) override {
    if (skipping_ > 0) return deeper();
    if (place_ == Place::tensor && key_ == "shape") {
      place_ = Place::shape;
      tensors.back().has_shape = true;
      return true;
    }
    if (place_ == Place::tensor && key_ == "data_offsets") {
      place_ = Place::offsets;
      return true;
    }
    return unknown_field() ? deeper() : other("an array");
  }

  bool end_array() override {
    if (skipping_ > 0) return --skipping_, true;
    place_ = Place::tensor;
    return true;
  }

  bool key(string_t& value) override {
    if (skipping_ > 0) return true;
    key_ = value;
    if (place_ == Place::header) {
      if (!names_.insert(value).second) return fail("\"" + value + "\" is there twice");
    } else if (!keys_.insert(value).second) {
      return fail(quoted() + " has \"" + value + "\" twice");
    }
    return true;
  }

  bool parse_error(size_t position, const std::string&,
                   const nlohmann::detail::exception&) override {
    return fail("the header is not valid JSON at byte " + std::to_string(8 + position));
  }

 private:
  enum class Place { start, header, metadata, tensor, shape, offsets, end };

  bool fail(std::string what) {
    fault = std::move(what);
    return false;
  }
  std::string quoted() const {
    const bool tensor =
        place_ == Place::tensor || place_ == Place::shape || place_ == Place::offsets;
    return tensor ? "tensor \"" + tensors.back().name + "\"" : "__metadata__";
  }
  // Fields that a later version of the format may add.
  bool unknown_field() const {
    return place_ == Place::tensor && key_ != "dtype" && key_ != "shape" && key_ != "data_offsets";
  }
  bool deeper() { return ++skipping_ <= 64 ? true : fail("the header is nested deeper than 64"); }
  bool other(const char* found) {
    if (skipping_ > 0 || unknown_field()) return true;
    if (place_ == Place::start) return fail("the header is " + std::string(found));
    if (place_ == Place::header) return fail("\"" + key_ + "\" is " + found + ", not a tensor");
    return fail(quoted() + " has " + found + " as \"" + key_ + "\"");
  }

  Place place_ = Place::start;
  int skipping_ = 0;
  std::string key_;
  std::unordered_set<std::string> names_;
  std::unordered_set<std::string> keys_;
};

class Reader {
 public:
  Reader(const std::filesystem::path& path, const std::string& where)
      : path_(path.string()),
        where_(where),
        file_(std::make_shared<const MappedFile>(path, where)) {}

  StateDict read(Metadata* metadata) {
    const size_t size = file_->size();
    uint64_t length = 0;
    if (size < 8) fail_header("the file has only " + std::to_string(size) + " bytes");
    std::memcpy(&length, file_->data(), 8);
    if (length > largest_header)
      fail_header("the header would be " + std::to_string(length) + " bytes long");
    if (length > size - 8)
      throw Error(where_,
                  path_ + ": truncated: the header alone asks for " + std::to_string(8 + length) +
                      " bytes, the file has " + std::to_string(size),
                  download_again);
    const auto* text = reinterpret_cast<const char*>(file_->data()) + 8;
    if (length == 0 || text[0] != '{') fail_header("there is no JSON header");

    HeaderReader header;
    if (!Json::sax_parse(text, text + length, &header)) fail(header.fault);
    data_ = file_->data() + 8 + length;
    data_size_ = size - 8 - length;
    for (auto& tensor : header.tensors) check(tensor);
    check_layout(header.tensors);
    if (metadata) *metadata = std::move(header.metadata);

    StateDict state;
    for (const auto& tensor : header.tensors) state.insert(tensor.name, make(tensor));
    return state;
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw Error(where_, path_ + ": " + what, download_again);
  }
  [[noreturn]] void fail_header(const std::string& what) const {
    const std::string other = recognise_other_file(*file_);
    fail("not a safetensors file: " + (other.empty() ? what : other));
  }

  // A tensor by itself: its type is known and its shape takes the bytes that its offsets give it.
  void check(HeaderTensor& tensor) const {
    const std::string name = "tensor \"" + tensor.name + "\"";
    const FileDtype* dtype = dtype_of_safetensors(tensor.dtype);
    if (tensor.dtype.empty()) fail(name + " has no dtype");
    if (!dtype)
      throw Error(where_, path_ + ": " + name + " has the unknown dtype \"" + tensor.dtype + "\"");
    if (!tensor.has_shape) fail(name + " has no shape");
    if (tensor.offsets.size() != 2) fail(name + " needs two data_offsets");
    const std::string shape = shape_text(tensor.shape);
    if (dtype->type == c10::ScalarType::Float4_e2m1fn_x2) {  // two to a byte
      if (tensor.shape.empty() || tensor.shape.back() % 2 != 0)
        fail(name + " has an odd shape " + shape + " for " + tensor.dtype);
      tensor.shape.back() /= 2;
    }
    const auto bytes = checked_bytes(tensor.shape, int64_t(c10::elementSize(dtype->type)));
    if (!bytes) fail(name + " has an impossible shape " + shape);
    const uint64_t begin = tensor.offsets[0], end = tensor.offsets[1];
    if (begin > end)
      fail(name + " ends before it begins (" + std::to_string(begin) + " to " +
           std::to_string(end) + ")");
    if (end - begin != uint64_t(*bytes))
      fail(name + " has " + std::to_string(end - begin) + " bytes, its shape " + shape + " of " +
           tensor.dtype + " takes " + std::to_string(*bytes));
  }

  // All together: one after another, no gap, no overlap, to the end of the file.
  void check_layout(const std::vector<HeaderTensor>& tensors) const {
    std::vector<const HeaderTensor*> order;
    for (const auto& tensor : tensors) order.push_back(&tensor);
    std::stable_sort(order.begin(), order.end(),
                     [](const auto* a, const auto* b) { return a->offsets < b->offsets; });
    const uint64_t end = order.empty() ? 0 : order.back()->offsets[1];
    if (end > data_size_) {
      const HeaderTensor* last = order.back();
      for (const auto* tensor : order) {
        last = tensor;
        if (tensor->offsets[1] > data_size_) break;
      }
      const uint64_t head = file_->size() - data_size_;
      // end may be anything up to 2^64: say what fits.
      fail("truncated: the header asks for " +
           (end > UINT64_MAX - head ? "more than 2^64" : std::to_string(head + end)) +
           " bytes, the file has " + std::to_string(file_->size()) + " (tensor \"" + last->name +
           "\" is cut off)");
    }
    uint64_t expected = 0;
    for (const auto* tensor : order) {
      const uint64_t begin = tensor->offsets[0];
      if (begin != expected)
        fail("tensor \"" + tensor->name + "\" begins at byte " + std::to_string(begin) +
             " of the data, " + (begin < expected ? "inside another tensor" : "after a gap") +
             " (expected " + std::to_string(expected) + ")");
      expected = tensor->offsets[1];
    }
    if (expected != data_size_)
      fail("the file goes on for " + std::to_string(data_size_ - expected) +
           " bytes after its last tensor");
  }

  at::Tensor make(const HeaderTensor& tensor) const {
    const auto type = dtype_of_safetensors(tensor.dtype)->type;
    const auto storage =
        mapped_storage(file_, data_ + tensor.offsets[0], tensor.offsets[1] - tensor.offsets[0],
                       c10::elementSize(type));
    return contiguous_tensor_over(storage, type, tensor.shape);
  }

  const std::string path_;
  const std::string where_;
  const std::shared_ptr<const MappedFile> file_;
  const std::byte* data_ = nullptr;
  size_t data_size_ = 0;
};

}  // namespace

StateDict read_safetensors(const std::filesystem::path& path, Metadata* metadata,
                           const std::string& where) {
  return Reader(path, where).read(metadata);
}

}  // namespace yoke
