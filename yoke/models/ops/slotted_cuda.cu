// yoke::embedding_add_ on CUDA, without atomics: the rows of one id are added by one block a strip
// of columns, in token order, so the bits are those of the CPU kernel and the same in every run.
//
// Note [One block an id]. A block stands for a token, and goes home unless that is the first token
// of its id. Then it looks for the later ones, a tile at a time, and adds their rows. Looking is
// quadratic in the tokens but reads 8 bytes where adding reads a row: for the few thousand tokens
// of a micro-batch it costs less than a sort.
#include <cassert>

#include "yoke/core/cuda_launch.h"
#include "yoke/models/ops/cuda_kernels_impl.h"

namespace yoke::cuda_kernels {
namespace {

constexpr int strip = 128;  // columns and threads of a block, tokens of a tile

__global__ void __launch_bounds__(strip)
    add_rows(float* table, const float* grad, const int64_t* ids, int64_t count, int64_t tokens,
             int64_t size, int64_t padding_idx) {
  __shared__ int64_t found[strip];
  __shared__ int before[strip / 32 + 1];
  const int64_t first = blockIdx.x, id = ids[first];
  const int thread = int(threadIdx.x), warp = thread / 32, lane = thread % 32;
  if (id == padding_idx) return;
  assert(id >= 0 && id < count);  // the host has checked them; ATen's kernels assert the same
  for (int64_t tile = 0; tile < first; tile += strip) {
    const int64_t t = tile + thread;
    if (__syncthreads_or(t < first && ids[t] == id)) return;
  }

  const int64_t column = int64_t(blockIdx.y) * strip + thread;
  const bool mine = column < size;
  float sum = mine ? table[id * size + column] : 0.f;
  for (int64_t tile = first; tile < tokens; tile += strip) {
    const int64_t t = tile + thread;
    const bool same = t < tokens && ids[t] == id;
    const unsigned votes = __ballot_sync(0xffffffffu, same);
    if (lane == 0) before[warp + 1] = __popc(votes);
    if (thread == 0) before[0] = 0;
    __syncthreads();
    if (thread == 0)
      for (int w = 0; w < strip / 32; ++w) before[w + 1] += before[w];
    __syncthreads();
    if (same) found[before[warp] + __popc(votes & ((1u << lane) - 1))] = t;
    __syncthreads();
    const int matches = before[strip / 32];
    if (mine)
      for (int m = 0; m < matches; ++m) sum += grad[found[m] * size + column];
    __syncthreads();  // the next tile writes over what is read here
  }
  if (mine) table[id * size + column] = sum;
}

}  // namespace

int embedding_add(float* table, const float* grad, const int64_t* ids, int64_t count,
                  int64_t tokens, int64_t size, int64_t padding_idx, void* stream) {
  if (tokens == 0 || size == 0) return 0;
  const dim3 blocks(unsigned(tokens), unsigned((size + strip - 1) / strip));
  return launch_kernel(add_rows, blocks, strip, stream, table, grad, ids, count, tokens, size,
                       padding_idx);
}

}  // namespace yoke::cuda_kernels
