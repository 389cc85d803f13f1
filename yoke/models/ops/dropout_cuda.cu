// yoke::row_dropout on CUDA: a thread draws one block of Philox and decides four channels by it, as
// the CPU kernel does, so the bits are the same.
#include "yoke/core/cuda_launch.h"
#include "yoke/models/ops/cuda_kernels_impl.h"

namespace yoke::cuda_kernels {
namespace {

constexpr int drop_threads = 256;
constexpr int64_t most_blocks = 1 << 16;  // beyond, a thread takes several

__global__ void __launch_bounds__(drop_threads)
    drop(const float* x, float* y, const int64_t* slots, const int64_t* positions, int64_t tokens,
         int64_t channels, uint32_t step, DropoutMask mask) {
  const int64_t per_token = (channels + 3) / 4, all = tokens * per_token;
  for (int64_t i = int64_t(blockIdx.x) * drop_threads + threadIdx.x; i < all;
       i += int64_t(gridDim.x) * drop_threads) {
    const int64_t token = i / per_token, block = i % per_token;
    const int64_t first = token * channels + 4 * block;
    drop_block(x + first, y + first, channels - 4 * block, step, uint32_t(slots[token]),
               uint32_t(positions[token]), uint32_t(block), mask);
  }
}

}  // namespace

int row_dropout(const float* x, float* y, const int64_t* slots, const int64_t* positions,
                int64_t tokens, int64_t channels, uint32_t step, const DropoutMask& mask,
                void* stream) {
  const int64_t blocks = (tokens * ((channels + 3) / 4) + drop_threads - 1) / drop_threads;
  if (blocks == 0) return 0;
  return launch_kernel(drop, unsigned(blocks < most_blocks ? blocks : most_blocks), drop_threads,
                       stream, x, y, slots, positions, tokens, channels, step, mask);
}

}  // namespace yoke::cuda_kernels
