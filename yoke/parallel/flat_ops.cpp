#include "yoke/parallel/flat_ops.h"

#include <ATen/Parallel.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/empty.h>
#include <torch/library.h>

#include <algorithm>

namespace yoke {
namespace {

// Eight partial sums in a fixed order, so that the compiler may vectorise without changing the
// result.
double square_sum(const float* x, int64_t n) {
  double partial[8] = {};
  int64_t i = 0;
  for (; i + 8 <= n; i += 8)
    for (int l = 0; l < 8; ++l) partial[l] += double(x[i + l]) * double(x[i + l]);
  for (int l = 0; i < n; ++i, ++l) partial[l] += double(x[i]) * double(x[i]);
  return ((partial[0] + partial[4]) + (partial[1] + partial[5])) +
         ((partial[2] + partial[6]) + (partial[3] + partial[7]));
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
