// Tensors over bytes of a mapped file.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Storage.h>

#include <cstddef>
#include <memory>
#include <string>

#include "yoke/core/file.h"

namespace yoke {

// A storage over [data, data + size) that keeps the mapping alive; a copy where `data` is not
// aligned to `alignment` bytes. The mapping is private: writing into a tensor changes memory only.
c10::Storage mapped_storage(std::shared_ptr<const MappedFile> file, const std::byte* data,
                            size_t size, size_t alignment);

// A CPU tensor over the storage. The caller has checked that it lies inside.
at::Tensor tensor_over(const c10::Storage& storage, c10::ScalarType type, c10::IntArrayRef sizes,
                       c10::IntArrayRef strides, int64_t offset);
at::Tensor contiguous_tensor_over(const c10::Storage& storage, c10::ScalarType type,
                                  c10::IntArrayRef sizes);

// What a file that is no weights file looks like, for the end of an error: "it is a Git LFS
// pointer". Empty when nothing is recognised.
std::string recognise_other_file(const MappedFile& file);

// The hint that goes with a damaged file.
inline constexpr const char* download_again = "download or copy the file again";

}  // namespace yoke
