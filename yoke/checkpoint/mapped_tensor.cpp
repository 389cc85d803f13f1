#include <c10/core/CPUAllocator.h>
#include <c10/core/TensorImpl.h>

#include <algorithm>
#include <cstring>
#include <string_view>

#include "yoke/checkpoint/mapped_tensor_impl.h"

namespace yoke {

c10::Storage mapped_storage(std::shared_ptr<const MappedFile> file, const std::byte* data,
                            size_t size, size_t alignment) {
  if (size > 0 && reinterpret_cast<uintptr_t>(data) % alignment != 0) {
    auto* allocator = c10::GetCPUAllocator();
    at::DataPtr copy = allocator->allocate(size);
    std::memcpy(copy.get(), data, size);
    return {c10::Storage::use_byte_size_t(), size, std::move(copy), nullptr, false};
  }
  auto* owner = new std::shared_ptr<const MappedFile>(std::move(file));
  at::DataPtr pointer(
      const_cast<std::byte*>(data), owner,
      [](void* context) { delete static_cast<std::shared_ptr<const MappedFile>*>(context); },
      c10::Device(c10::DeviceType::CPU));
  return {c10::Storage::use_byte_size_t(), size, std::move(pointer), nullptr, false};
}

at::Tensor tensor_over(const c10::Storage& storage, c10::ScalarType type, c10::IntArrayRef sizes,
                       c10::IntArrayRef strides, int64_t offset) {
  auto tensor = at::detail::make_tensor<c10::TensorImpl>(c10::Storage(storage),
                                                         c10::DispatchKeySet(c10::DispatchKey::CPU),
                                                         c10::scalarTypeToTypeMeta(type));
  tensor.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, strides, offset);
  return tensor;
}

at::Tensor contiguous_tensor_over(const c10::Storage& storage, c10::ScalarType type,
                                  c10::IntArrayRef sizes) {
  std::vector<int64_t> strides(sizes.size(), 1);
  for (size_t i = sizes.size(); i-- > 1;)
    strides[i - 1] = strides[i] * std::max<int64_t>(sizes[i], 1);
  return tensor_over(storage, type, sizes, strides, 0);
}

std::string recognise_other_file(const MappedFile& file) {
  std::string_view head(reinterpret_cast<const char*>(file.data()),
                        std::min<size_t>(file.size(), 512));
  if (head.empty()) return "the file is empty";
  if (head.starts_with("version https://git-lfs"))
    return "it is a Git LFS pointer, not the weights themselves";
  while (!head.empty() && (head.front() == ' ' || head.front() == '\n' || head.front() == '\r'))
    head.remove_prefix(1);
  if (head.starts_with("<!DOCTYPE") || head.starts_with("<html") || head.starts_with("<?xml"))
    return "it is a web page, not weights";
  if (head.starts_with("\x89HDF\r\n")) return "it is an HDF5 file (Keras, TensorFlow)";
  if (head.starts_with("GGUF")) return "it is a GGUF file";
  return "";
}

}  // namespace yoke
