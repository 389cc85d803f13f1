// The CUDA kernel of flat_ops as a plain function over device pointers (the .cu file does without
// LibTorch), and the order of additions that it shares with the CPU kernel.
#pragma once

#include <cmath>
#include <cstdint>

namespace yoke {

// Note [Sums of squares]. Squares are added in float for 256 elements at a time, element e to lane
// e % 16 by a fused multiply-add, lanes by halving (l += l + 8, + 4, + 2, + 1), and those sums in
// double, in order: fast, right to a few units of float, and the same bits wherever it runs.
inline constexpr int64_t square_group = 256;
inline constexpr int square_lanes = 16;

// The sum of one lane over a group of `size` <= square_group elements.
constexpr float square_lane(const float* x, int64_t size, int lane) {
  float sum = 0;
  for (int64_t i = lane; i < size; i += square_lanes) sum = std::fma(x[i], x[i], sum);
  return sum;
}

namespace cuda_kernels {

// x (n) -> sums (ceil(n / chunk)), chunk a multiple of square_group. `stream` is a cudaStream_t;
// returns the launch's error code (0: none).
int chunk_square_sums(const float* x, double* sums, int64_t n, int64_t chunk, void* stream);

}  // namespace cuda_kernels
}  // namespace yoke
