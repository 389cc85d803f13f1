#include "yoke/parallel/flat_ops.h"

#include <ATen/Parallel.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/empty.h>
#include <torch/library.h>

#include <algorithm>
#include <cmath>

#include "yoke/core/multiversion.h"
#include "yoke/parallel/flat_kernels_impl.h"

namespace yoke {
namespace {

// By Note [Sums of squares] in flat_kernels_impl.h. The fused multiply-add is written out: left to
// the compiler, it would be there or not by the instruction set.
YOKE_MULTIVERSION double square_sum(const float* x, int64_t n) {
  double sum = 0;
  for (int64_t begin = 0; begin < n; begin += square_group) {
    float lanes[square_lanes] = {};
    const int64_t size = std::min(square_group, n - begin);
    int64_t i = 0;
    for (; i + square_lanes <= size; i += square_lanes)
      for (int l = 0; l < square_lanes; ++l)
        lanes[l] = __builtin_fmaf(x[begin + i + l], x[begin + i + l], lanes[l]);
    for (int l = 0; i < size; ++i, ++l)
      lanes[l] = __builtin_fmaf(x[begin + i], x[begin + i], lanes[l]);
    for (int width = square_lanes / 2; width; width /= 2)
      for (int l = 0; l < width; ++l) lanes[l] += lanes[l + width];
    sum += lanes[0];
  }
  return sum;
}

at::Tensor chunk_square_sums_cpu(const at::Tensor& x_in) {
  TORCH_CHECK(x_in.dim() == 1 && x_in.scalar_type() == at::kFloat,
              "yoke::chunk_square_sums: x must be a float vector");
  const auto x = x_in.contiguous();
  const int64_t n = x.numel(), chunks = chunk_count(n);
  auto sums = at::empty({chunks}, x.options().dtype(at::kDouble));
  const float* from = x.const_data_ptr<float>();
  double* to = sums.mutable_data_ptr<double>();
  at::parallel_for(0, chunks, 1, [&](int64_t begin, int64_t end) {
    for (int64_t c = begin; c < end; ++c)
      to[c] = square_sum(from + c * flat_chunk, std::min(flat_chunk, n - c * flat_chunk));
  });
  return sums;
}

at::Tensor chunk_square_sums_reference(const at::Tensor& x) {
  const int64_t chunks = chunk_count(x.numel());
  const auto padded = at::constant_pad_nd(x, {0, chunks * flat_chunk - x.numel()});
  return padded.view({chunks, flat_chunk}).to(at::kDouble).square().sum(1);
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(yoke, m) { m.def("chunk_square_sums(Tensor x) -> Tensor"); }
TORCH_LIBRARY_IMPL(yoke, CPU, m) { m.impl("chunk_square_sums", chunk_square_sums_cpu); }

at::Tensor chunk_square_sums(const at::Tensor& x) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("yoke::chunk_square_sums", "")
                             .typed<decltype(chunk_square_sums_cpu)>();
  if (x.is_cuda() && !op.hasKernelForDispatchKey(c10::DispatchKey::CUDA))
    return chunk_square_sums_reference(x);
  return op.call(x);
}

}  // namespace yoke
