#include "yoke/parallel/flat_ops.h"

#include <ATen/Parallel.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/empty.h>
#include <torch/library.h>

#include <algorithm>

#include "yoke/core/multiversion.h"

namespace yoke {
namespace {

// Squares are added in float for 256 elements at a time, in sixteen lanes, and those sums in
// double, always in the same order: fast, and still right to a few units of float.
YOKE_MULTIVERSION double square_sum(const float* x, int64_t n) {
  double sum = 0;
  for (int64_t begin = 0; begin < n; begin += 256) {
    float lanes[16] = {};
    const int64_t size = std::min<int64_t>(256, n - begin);
    int64_t i = 0;
    for (; i + 16 <= size; i += 16)
      for (int l = 0; l < 16; ++l) lanes[l] += x[begin + i + l] * x[begin + i + l];
    for (int l = 0; i < size; ++i, ++l) lanes[l] += x[begin + i] * x[begin + i];
    for (int width = 8; width; width /= 2)
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
TORCH_LIBRARY_IMPL(yoke, CUDA, m) { m.impl("chunk_square_sums", chunk_square_sums_reference); }

at::Tensor chunk_square_sums(const at::Tensor& x) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("yoke::chunk_square_sums", "")
                             .typed<decltype(chunk_square_sums_cpu)>();
  return op.call(x);
}

}  // namespace yoke
