#include <c10/util/ArrayRef.h>

#include "yoke/checkpoint/dtypes_impl.h"

namespace yoke {
namespace {

using S = c10::ScalarType;

// In the order of the safetensors library, widest first: files are written in this order, so that
// every tensor is aligned.
constexpr FileDtype table[] = {
    {S::UInt64, "U64", "uint64", nullptr},
    {S::Long, "I64", "int64", "LongStorage"},
    {S::Double, "F64", "float64", "DoubleStorage"},
    {S::ComplexFloat, "C64", "complex64", "ComplexFloatStorage"},
    {S::Float, "F32", "float32", "FloatStorage"},
    {S::UInt32, "U32", "uint32", nullptr},
    {S::Int, "I32", "int32", "IntStorage"},
    {S::BFloat16, "BF16", "bfloat16", "BFloat16Storage"},
    {S::Half, "F16", "float16", "HalfStorage"},
    {S::UInt16, "U16", "uint16", nullptr},
    {S::Short, "I16", "int16", "ShortStorage"},
    {S::Float8_e5m2fnuz, "F8_E5M2FNUZ", "float8_e5m2fnuz", nullptr},
    {S::Float8_e4m3fnuz, "F8_E4M3FNUZ", "float8_e4m3fnuz", nullptr},
    {S::Float8_e8m0fnu, "F8_E8M0", "float8_e8m0fnu", nullptr},
    {S::Float8_e4m3fn, "F8_E4M3", "float8_e4m3fn", nullptr},
    {S::Float8_e5m2, "F8_E5M2", "float8_e5m2", nullptr},
    {S::Char, "I8", "int8", "CharStorage"},
    {S::Byte, "U8", "uint8", "ByteStorage"},
    {S::Float4_e2m1fn_x2, "F4", "float4_e2m1fn_x2", nullptr},
    {S::Bool, "BOOL", "bool", "BoolStorage"},
    {S::ComplexDouble, nullptr, "complex128", "ComplexDoubleStorage"},
    {S::ComplexHalf, nullptr, "complex32", nullptr},
};

template <typename Same>
const FileDtype* search(Same&& same) {
  for (const auto& entry : table)
    if (same(entry)) return &entry;
  return nullptr;
}

}  // namespace

const FileDtype* dtype_of_safetensors(std::string_view name) {
  return search([&](const FileDtype& d) { return d.safetensors && name == d.safetensors; });
}

const FileDtype* dtype_of_torch(std::string_view name) {
  return search([&](const FileDtype& d) { return name == d.torch; });
}

const FileDtype* dtype_of_storage(std::string_view name) {
  return search([&](const FileDtype& d) { return d.storage && name == d.storage; });
}

const FileDtype* dtype_of(c10::ScalarType type) {
  return search([&](const FileDtype& d) { return d.type == type; });
}

int safetensors_rank(c10::ScalarType type) {
  const FileDtype* found = dtype_of(type);
  return found ? int(found - table) : int(std::size(table));
}

std::string dtype_name(c10::ScalarType type) {
  const FileDtype* found = dtype_of(type);
  return found ? found->torch : c10::toString(type);
}

std::optional<int64_t> checked_bytes(c10::IntArrayRef sizes, int64_t itemsize) {
  constexpr int64_t limit = int64_t{1} << 62;
  // A zero anywhere makes the tensor empty, whatever the other sizes say, but LibTorch multiplies
  // them all the same: the product of the others must fit too.
  int64_t product = itemsize;
  bool empty = false;
  for (int64_t size : sizes) {
    if (size < 0) return std::nullopt;
    if (size == 0) {
      empty = true;
      continue;
    }
    if (product > limit / size) return std::nullopt;
    product *= size;
  }
  return empty ? 0 : product;
}

}  // namespace yoke
