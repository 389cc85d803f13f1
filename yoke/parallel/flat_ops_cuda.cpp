// Registers this folder's CUDA kernel. Part of libyoke_cuda.so, where nvcc was found.
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

#include "yoke/parallel/flat_kernels_impl.h"
#include "yoke/parallel/flat_ops.h"

namespace yoke {
namespace {

at::Tensor chunk_square_sums_cuda(const at::Tensor& x_in) {
  TORCH_CHECK(x_in.dim() == 1 && x_in.scalar_type() == at::kFloat,
              "yoke::chunk_square_sums: x must be a float vector");
  const c10::cuda::CUDAGuard guard(x_in.device());
  const auto x = x_in.contiguous();
  auto sums = at::empty({chunk_count(x.numel())}, x.options().dtype(at::kDouble));
  C10_CUDA_CHECK(static_cast<cudaError_t>(cuda_kernels::chunk_square_sums(
      x.const_data_ptr<float>(), sums.mutable_data_ptr<double>(), x.numel(), flat_chunk,
      c10::cuda::getCurrentCUDAStream(x.get_device()).stream())));
  return sums;
}

}  // namespace

TORCH_LIBRARY_IMPL(yoke, CUDA, m) { m.impl("chunk_square_sums", chunk_square_sums_cuda); }

}  // namespace yoke
