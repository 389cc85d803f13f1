// yoke::chunk_square_sums on CUDA, in the order of the CPU kernel (Note [Sums of squares]): a
// thread sums one lane of one group, sixteen threads fold their lanes, one thread adds the groups
// of a chunk.
#include "yoke/core/cuda_launch.h"
#include "yoke/parallel/flat_kernels_impl.h"

namespace yoke::cuda_kernels {
namespace {

constexpr int threads = 512;
constexpr int groups_at_once = threads / square_lanes;

// A block a chunk.
__global__ void __launch_bounds__(threads)
    sum_squares(const float* x, double* sums, int64_t n, int64_t chunk) {
  __shared__ float group_sums[groups_at_once];
  const int64_t begin = int64_t(blockIdx.x) * chunk;
  const int64_t end = begin + chunk < n ? begin + chunk : n;
  const int lane = int(threadIdx.x) % square_lanes, group = int(threadIdx.x) / square_lanes;
  double sum = 0;  // of thread 0
  for (int64_t at = begin; at < end; at += groups_at_once * square_group) {
    const int64_t first = at + group * square_group;
    const int64_t left = first < end ? end - first : 0;
    float part = square_lane(x + first, left < square_group ? left : square_group, lane);
    for (int width = square_lanes / 2; width; width /= 2)
      part += __shfl_down_sync(0xffffffffu, part, width, square_lanes);
    if (lane == 0) group_sums[group] = part;
    __syncthreads();
    if (threadIdx.x == 0)
      for (int g = 0; g < groups_at_once; ++g) sum += double(group_sums[g]);  // 0 past the end
    __syncthreads();
  }
  if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}

}  // namespace

int chunk_square_sums(const float* x, double* sums, int64_t n, int64_t chunk, void* stream) {
  const int64_t chunks = (n + chunk - 1) / chunk;
  if (chunks == 0) return 0;
  return launch_kernel(sum_squares, unsigned(chunks), threads, stream, x, sums, n, chunk);
}

}  // namespace yoke::cuda_kernels
