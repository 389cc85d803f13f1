// Registers this folder's CUDA kernels. Part of libyoke_cuda.so, where nvcc was found.
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty_like.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

#include "yoke/models/ops/cuda_kernels_impl.h"
#include "yoke/models/ops/dropout.h"

namespace yoke {
namespace {

void launched(int error) { C10_CUDA_CHECK(static_cast<cudaError_t>(error)); }

void* stream_of(const at::Tensor& x) {
  return c10::cuda::getCurrentCUDAStream(x.get_device()).stream();
}

at::Tensor row_dropout_cuda(const at::Tensor& x_in, const at::Tensor& slots_in,
                            const at::Tensor& positions_in, double p, int64_t key_bits,
                            int64_t step) {
  TORCH_CHECK(x_in.dim() == 2 && x_in.scalar_type() == at::kFloat,
              "yoke::row_dropout: x must be a float matrix (tokens, channels)");
  TORCH_CHECK(slots_in.numel() == x_in.size(0) && positions_in.numel() == x_in.size(0) &&
                  slots_in.device() == x_in.device() && positions_in.device() == x_in.device(),
              "yoke::row_dropout: slots and positions need one entry a token, on x's device");
  const c10::cuda::CUDAGuard guard(x_in.device());
  const auto x = x_in.contiguous(), slots = slots_in.contiguous(),
             positions = positions_in.contiguous();
  auto y = at::empty_like(x);
  const DropoutMask mask{key_of(key_bits), dropout_threshold(p), float(1 / (1 - p))};
  launched(cuda_kernels::row_dropout(x.const_data_ptr<float>(), y.mutable_data_ptr<float>(),
                                     slots.const_data_ptr<int64_t>(),
                                     positions.const_data_ptr<int64_t>(), x.size(0), x.size(1),
                                     uint32_t(step), mask, stream_of(x)));
  return y;
}

void embedding_add_cuda(at::Tensor table, const at::Tensor& grad_in, const at::Tensor& ids_in,
                        int64_t padding_idx) {
  TORCH_CHECK(table.dim() == 2 && table.is_contiguous() && table.scalar_type() == at::kFloat &&
                  grad_in.dim() == 2 && grad_in.size(1) == table.size(1) &&
                  grad_in.size(0) == ids_in.numel() && grad_in.device() == table.device() &&
                  ids_in.device() == table.device(),
              "yoke::embedding_add_: table (count, size), grad (tokens, size), ids (tokens), all "
              "on one device");
  const c10::cuda::CUDAGuard guard(table.device());
  const auto grad = grad_in.contiguous(), ids = ids_in.contiguous();
  launched(cuda_kernels::embedding_add(
      table.mutable_data_ptr<float>(), grad.const_data_ptr<float>(), ids.const_data_ptr<int64_t>(),
      table.size(0), ids.numel(), table.size(1), padding_idx, stream_of(table)));
}

}  // namespace

TORCH_LIBRARY_IMPL(yoke, CUDA, m) {
  m.impl("row_dropout", row_dropout_cuda);
  m.impl("embedding_add_", embedding_add_cuda);
}

}  // namespace yoke
