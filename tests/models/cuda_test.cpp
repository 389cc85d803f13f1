// The CUDA kernels of models/ops beside the CPU's, bit for bit: run on the host everywhere, and on
// a GPU where one is.
#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <gtest/gtest.h>

#include "yoke/core/gradient_slots.h"
#include "yoke/models/ops/dropout.h"
#include "yoke/models/ops/slotted.h"

#ifndef YOKE_SANITIZED  // sanitisers do not know fibres
#include "tests/cuda_on_host.h"
//
#include "yoke/models/ops/dropout_cuda.cu"
#include "yoke/models/ops/slotted_cuda.cu"
#endif
#ifdef YOKE_CUDA_PLUGIN
#include "tests/cuda_plugin.h"
#endif

namespace yoke {
namespace {

struct Case {
  at::Tensor x, slots, positions;
  Case(int64_t tokens, int64_t channels)
      : x(at::randn({tokens, channels})),
        slots(at::randint(0, 1000, {tokens}, at::kLong)),
        positions(at::randint(0, 512, {tokens}, at::kLong)) {}
};

constexpr int64_t widths[] = {1, 3, 4, 127, 130, 384};

#ifndef YOKE_SANITIZED
TEST(CudaKernels, run_on_the_host_row_dropout_gives_the_cpu_kernels_bits) {
  const DropoutSite site{.p = 0.3, .seed = 42, .layer = 5, .step = 11};
  const DropoutMask mask{site.key(), dropout_threshold(site.p), float(1 / (1 - site.p))};
  for (const int64_t channels : widths) {
    const Case in(9, channels);
    auto y = at::full_like(in.x, -7);
    ASSERT_EQ(cuda_kernels::row_dropout(in.x.const_data_ptr<float>(), y.mutable_data_ptr<float>(),
                                        in.slots.const_data_ptr<int64_t>(),
                                        in.positions.const_data_ptr<int64_t>(), 9, channels,
                                        uint32_t(site.step), mask, nullptr),
              0);
    EXPECT_TRUE(at::equal(y, row_dropout(in.x, in.slots, in.positions, site))) << channels;
  }
}

TEST(CudaKernels, run_on_the_host_embedding_gradients_have_the_cpu_kernels_bits) {
  const auto op = c10::Dispatcher::singleton()
                      .findSchemaOrThrow("yoke::embedding_add_", "")
                      .typed<void(at::Tensor, const at::Tensor&, const at::Tensor&, int64_t)>();
  for (const int64_t size : {1, 130})
    for (const int64_t count : {5, 300}) {  // many tokens an id, and few
      const int64_t tokens = 290;           // three tiles
      const auto table = at::randn({count, size}), grad = at::randn({tokens, size});
      const auto ids = at::randint(0, count, {tokens}, at::kLong);
      auto expected = table.clone();
      op.call(expected, grad, ids, 3);
      ASSERT_EQ(cuda_kernels::embedding_add(
                    table.mutable_data_ptr<float>(), grad.const_data_ptr<float>(),
                    ids.const_data_ptr<int64_t>(), count, tokens, size, 3, nullptr),
                0);
      EXPECT_TRUE(at::equal(table, expected)) << size << ", " << count;
    }
}
#endif

#ifdef YOKE_CUDA_PLUGIN
TEST(CudaKernels, the_library_has_them_where_nvcc_was_found) {
  expect_cuda_kernels({"yoke::row_dropout", "yoke::embedding_add_"});
}

TEST(CudaKernels, row_dropout_gives_the_cpu_kernels_bits_forward_and_backward) {
  if (!gpu_is_here) GTEST_SKIP() << "no GPU";
  const DropoutSite site{.p = 0.1, .seed = 42, .layer = 5, .step = 11};
  for (const int64_t channels : widths) {
    const Case in(700, channels);
    const auto on_gpu = in.x.cuda().requires_grad_(), on_cpu = in.x.clone().requires_grad_();
    const auto slots = in.slots.cuda(), positions = in.positions.cuda();
    const auto a = row_dropout(on_gpu, slots, positions, site);
    const auto b = row_dropout(on_cpu, in.slots, in.positions, site);
    EXPECT_TRUE(at::equal(a.cpu(), b)) << channels;
    EXPECT_TRUE(at::equal(a, row_dropout_reference(on_gpu, slots, positions, site))) << channels;
    a.sum().backward();
    b.sum().backward();
    EXPECT_TRUE(at::equal(on_gpu.grad().cpu(), on_cpu.grad())) << channels;
  }
}

// The gradient of an embedding that a slot receives over two micro-batches.
at::Tensor slot_after_two_batches(const at::Tensor& weight_in, const at::Tensor& ids,
                                  const at::Tensor& grad) {
  auto weight = weight_in.detach().requires_grad_();
  auto gradient = at::full_like(weight_in, -7);
  GradientSlot slot{.gradient = &gradient};
  offer_gradient_slot(weight.unsafeGetTensorImpl(), &slot);
  for (int batch = 0; batch < 2; ++batch) slotted_embedding(weight, ids, 3).backward(grad);
  offer_gradient_slot(weight.unsafeGetTensorImpl(), nullptr);
  EXPECT_TRUE(slot.written);
  return gradient;
}

TEST(CudaKernels, embedding_gradients_have_the_cpu_kernels_bits) {
  if (!gpu_is_here) GTEST_SKIP() << "no GPU";
  for (const int64_t size : {1, 100, 384})
    for (const int64_t count : {5, 2000}) {  // many tokens an id, and few
      const auto weight = at::randn({count, size}), grad = at::randn({1000, size});
      const auto ids = at::randint(0, count, {1000}, at::kLong);
      const auto a = slot_after_two_batches(weight.cuda(), ids.cuda(), grad.cuda());
      EXPECT_TRUE(at::equal(a.cpu(), slot_after_two_batches(weight, ids, grad))) << size;
    }
}
#endif

}  // namespace
}  // namespace yoke
