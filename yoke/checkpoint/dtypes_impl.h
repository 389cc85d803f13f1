// How files call the scalar types of LibTorch.
#pragma once

#include <c10/core/ScalarType.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace yoke {

struct FileDtype {
  c10::ScalarType type;
  const char* safetensors;  // null: the format has no such type
  const char* torch;        // "float32": torch.float32, and dtypes in errors
  const char* storage;      // "FloatStorage": torch.FloatStorage; null: stored as untyped bytes
};

const FileDtype* dtype_of_safetensors(std::string_view name);
const FileDtype* dtype_of_torch(std::string_view name);
const FileDtype* dtype_of_storage(std::string_view name);
const FileDtype* dtype_of(c10::ScalarType type);  // null for types that no file holds

// The place among the types that the safetensors library sorts by, widest first; lower is earlier.
int safetensors_rank(c10::ScalarType type);

// "float32", or LibTorch's own name for a type without one.
std::string dtype_name(c10::ScalarType type);

// "(2, 3)".
template <typename Sizes>
std::string shape_text(const Sizes& sizes) {
  std::string text = "(";
  for (size_t i = 0; i < sizes.size(); ++i) text += (i ? ", " : "") + std::to_string(sizes[i]);
  return text + (sizes.size() == 1 ? ",)" : ")");
}

// elements x bytes, or nothing when a factor is negative or the product passes 2^62.
std::optional<int64_t> checked_bytes(c10::IntArrayRef sizes, int64_t itemsize);

}  // namespace yoke
