// Work over flat buffers, cut into fixed chunks so that thread and device counts do not matter.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace yoke {

inline constexpr int64_t flat_chunk = int64_t{1} << 16;  // elements

// Number of chunks of a buffer of n elements; the last one may be short.
constexpr int64_t chunk_count(int64_t n) { return (n + flat_chunk - 1) / flat_chunk; }

// x (n) float -> (chunk_count(n)) double on x's device: the sum of squares of each chunk, added up
// in an order that does not depend on threads. The CUDA kernel gives the CPU kernel's bits; where
// libyoke_cuda.so was built without nvcc, plain tensor operations serve, added up in double.
at::Tensor chunk_square_sums(const at::Tensor& x);

}  // namespace yoke
