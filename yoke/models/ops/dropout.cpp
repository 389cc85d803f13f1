#include "yoke/models/ops/dropout.h"

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <algorithm>

#include "yoke/core/philox_lanes.h"
#include "yoke/models/ops/dropout_element_impl.h"

namespace yoke {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// One token's channels.
YOKE_MULTIVERSION void drop_row(const float* x, float* y, int64_t channels, uint32_t step,
                                uint32_t slot, uint32_t position, DropoutMask mask) {
  uint32_t words[4][philox_lanes];
  float keep[4 * philox_lanes];
  for (int64_t begin = 0; begin < channels; begin += 4 * philox_lanes) {
    philox_block(step, slot, position, uint32_t(begin / 4), mask.key, words);
    for (int i = 0; i < philox_lanes; ++i)
      for (int w = 0; w < 4; ++w) keep[4 * i + w] = words[w][i] < mask.threshold ? 0.f : mask.scale;
    const int64_t n = std::min<int64_t>(4 * philox_lanes, channels - begin);
    for (int64_t c = 0; c < n; ++c)
      // A select, not a product, so that an infinity is dropped to 0 like the reference does.
      y[begin + c] = keep[c] == 0.f ? 0.f : x[begin + c] * keep[c];
  }
}

at::Tensor row_dropout_cpu(const at::Tensor& x_in, const at::Tensor& slots_in,
                           const at::Tensor& positions_in, double p, int64_t key_bits,
                           int64_t step) {
  TORCH_CHECK(x_in.dim() == 2 && x_in.scalar_type() == at::kFloat,
              "yoke::row_dropout: x must be a float matrix (tokens, channels)");
  TORCH_CHECK(slots_in.numel() == x_in.size(0) && positions_in.numel() == x_in.size(0),
              "yoke::row_dropout: slots and positions need one entry a token");
  const auto x = x_in.contiguous();
  const auto slots = slots_in.contiguous();
  const auto positions = positions_in.contiguous();
  auto y = at::empty_like(x);
  const float* from = x.const_data_ptr<float>();
  float* to = y.mutable_data_ptr<float>();
  const int64_t* slot = slots.const_data_ptr<int64_t>();
  const int64_t* position = positions.const_data_ptr<int64_t>();
  const int64_t channels = x.size(1);
  const DropoutMask mask{key_of(key_bits), dropout_threshold(p), float(1 / (1 - p))};
  at::parallel_for(0, x.size(0), std::max<int64_t>(1, 8192 / std::max<int64_t>(channels, 1)),
                   [&](int64_t begin, int64_t end) {
                     for (int64_t t = begin; t < end; ++t)
                       drop_row(from + t * channels, to + t * channels, channels, uint32_t(step),
                                uint32_t(slot[t]), uint32_t(position[t]), mask);
                   });
  return y;
}

at::Tensor call_row_dropout(const at::Tensor& x, const at::Tensor& slots,
                            const at::Tensor& positions, double p, int64_t key, int64_t step) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("yoke::row_dropout", "")
                             .typed<decltype(row_dropout_cpu)>();
  return op.call(x, slots, positions, p, key, step);
}

// The gradient of a dropout is the same dropout of the gradient.
struct RowDropout : torch::autograd::Function<RowDropout> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& slots,
                            const at::Tensor& positions, double p, int64_t key, int64_t step) {
    context->save_for_backward({slots, positions});
    context->saved_data["p"] = p;
    context->saved_data["key"] = key;
    context->saved_data["step"] = step;
    at::AutoDispatchBelowADInplaceOrView below;
    return call_row_dropout(x, slots, positions, p, key, step);
  }
  static variable_list backward(AutogradContext* context, variable_list grads) {
    const auto saved = context->get_saved_variables();
    auto grad =
        call_row_dropout(grads[0], saved[0], saved[1], context->saved_data["p"].toDouble(),
                         context->saved_data["key"].toInt(), context->saved_data["step"].toInt());
    return {grad, {}, {}, {}, {}, {}};
  }
};

}  // namespace

TORCH_LIBRARY_FRAGMENT(yoke, m) {
  m.def(
      "row_dropout(Tensor x, Tensor slots, Tensor positions, float p, int key, int step) -> "
      "Tensor");
}

TORCH_LIBRARY_IMPL(yoke, CPU, m) { m.impl("row_dropout", row_dropout_cpu); }

bool has_kernel(const char* op, const at::Tensor& x) {
  if (x.is_cpu() || x.is_privateuseone()) return true;
  const auto found = c10::Dispatcher::singleton().findSchema({op, ""});
  return x.is_cuda() && found && found->hasKernelForDispatchKey(c10::DispatchKey::CUDA);
}

at::Tensor row_dropout(const at::Tensor& x, const at::Tensor& slots, const at::Tensor& positions,
                       const DropoutSite& site) {
  if (site.p == 0) return x;
  if (!has_kernel("yoke::row_dropout", x)) return row_dropout_reference(x, slots, positions, site);
  return RowDropout::apply(x, slots, positions, site.p, site.key_bits(), site.step);
}

at::Tensor philox_words(int64_t step, const at::Tensor& c1, const at::Tensor& c2,
                        const at::Tensor& c3, PhiloxKey key) {
  constexpr int64_t low = 0xffffffffll;
  auto x1 = c1 + at::zeros_like(c2) + at::zeros_like(c3);
  auto x2 = at::zeros_like(x1) + c2;
  auto x3 = at::zeros_like(x1) + c3;
  auto x0 = at::full(x1.sizes(), step & low, x1.options());
  uint32_t k0 = key.k0, k1 = key.k1;
  for (int round = 0; round < 10; ++round) {
    // Products of 32-bit words wrap in int64 to the right 64 bits; shifts are made unsigned by a
    // mask.
    const auto p0 = x0 * int64_t{philox_m0};
    const auto p1 = x2 * int64_t{philox_m1};
    const auto high0 = p0.__rshift__(32).bitwise_and(low);
    const auto high1 = p1.__rshift__(32).bitwise_and(low);
    const auto next0 = high1.bitwise_xor(x1).bitwise_xor(int64_t{k0});
    const auto next2 = high0.bitwise_xor(x3).bitwise_xor(int64_t{k1});
    x1 = p1.bitwise_and(low);
    x3 = p0.bitwise_and(low);
    x0 = next0;
    x2 = next2;
    k0 += philox_w0;
    k1 += philox_w1;
  }
  return at::stack({x0, x1, x2, x3}, -1);
}

at::Tensor row_dropout_reference(const at::Tensor& x, const at::Tensor& slots,
                                 const at::Tensor& positions, const DropoutSite& site) {
  if (site.p == 0) return x;
  const int64_t channels = x.size(1);
  const auto blocks = at::arange((channels + 3) / 4, slots.options());
  const auto words = philox_words(site.step, slots.unsqueeze(1), positions.unsqueeze(1),
                                  blocks.unsqueeze(0), site.key());
  const auto keep = words.flatten(1).narrow(1, 0, channels).ge(int64_t{dropout_threshold(site.p)});
  return at::where(keep, x * float(1 / (1 - site.p)), at::zeros_like(x));
}

}  // namespace yoke
