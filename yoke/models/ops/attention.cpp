#include "yoke/models/ops/attention.h"

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <tuple>

#include "yoke/models/ops/attention_kernel.h"

namespace yoke {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

AttentionShape shape_of(const at::Tensor& q, int64_t heads, double p, int64_t key, int64_t step) {
  TORCH_CHECK(q.dim() == 2 && q.scalar_type() == at::kFloat && heads > 0 && q.size(1) % heads == 0,
              "yoke::packed_attention: q must be a float matrix (tokens, heads * head size)");
  AttentionShape shape;
  shape.heads = heads;
  shape.head_size = q.size(1) / heads;
  shape.stride = q.size(1);
  shape.scale = float(1 / std::sqrt(double(shape.head_size)));
  shape.key = key_of(key);
  shape.threshold = dropout_threshold(p);
  shape.keep_scale = float(1 / (1 - p));
  shape.step = uint32_t(step);
  return shape;
}

// Runs task(row, head) for all rows and heads, longest share of work first come first served; each
// task writes only what is its own, so the result does not depend on who runs it.
template <class Task>
void for_each_row_and_head(c10::IntArrayRef cu, int64_t heads, const Task& task) {
  const int64_t rows = int64_t(cu.size()) - 1;
  const int64_t tasks = rows * heads;
  std::atomic<int64_t> next{0};
  auto work = [&](int64_t, int64_t) {
    for (int64_t i = next++; i < tasks; i = next++)
      if (cu[size_t(i / heads) + 1] > cu[size_t(i / heads)]) task(i / heads, i % heads);
  };
  const int64_t threads = cu.back() < 64 ? 1 : at::get_num_threads();
  at::parallel_for(0, threads, 1, work);
}

void check_rows(c10::IntArrayRef cu, const at::Tensor& q, const at::Tensor& slots) {
  TORCH_CHECK(!cu.empty() && cu.front() == 0 && cu.back() == q.size(0) &&
                  std::is_sorted(cu.begin(), cu.end()) && slots.numel() == q.size(0),
              "yoke::packed_attention: cu_seqlens must rise from 0 to the number of tokens");
}

std::tuple<at::Tensor, at::Tensor> attention_cpu(const at::Tensor& q_in, const at::Tensor& k_in,
                                                 const at::Tensor& v_in, c10::IntArrayRef cu,
                                                 const at::Tensor& slots_in, int64_t heads,
                                                 double p, int64_t key, int64_t step) {
  const AttentionShape shape = shape_of(q_in, heads, p, key, step);
  check_rows(cu, q_in, slots_in);
  const auto q = q_in.contiguous(), k = k_in.contiguous(), v = v_in.contiguous();
  const auto slots = slots_in.contiguous();
  auto out = at::empty_like(q);
  auto lse = at::empty({q.size(0), heads}, q.options());
  const AttentionForward tensors{q.const_data_ptr<float>(), k.const_data_ptr<float>(),
                                 v.const_data_ptr<float>(), out.mutable_data_ptr<float>(),
                                 lse.mutable_data_ptr<float>()};
  const int64_t* slot = slots.const_data_ptr<int64_t>();
  for_each_row_and_head(cu, heads, [&](int64_t row, int64_t head) {
    const int64_t begin = cu[size_t(row)], end = cu[size_t(row) + 1];
    attend(shape, tensors, begin, end, uint32_t(slot[begin]), head);
  });
  return {out, lse};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> attention_backward_cpu(
    const at::Tensor& grad_in, const at::Tensor& q_in, const at::Tensor& k_in,
    const at::Tensor& v_in, const at::Tensor& out_in, const at::Tensor& lse_in, c10::IntArrayRef cu,
    const at::Tensor& slots_in, int64_t heads, double p, int64_t key, int64_t step) {
  const AttentionShape shape = shape_of(q_in, heads, p, key, step);
  check_rows(cu, q_in, slots_in);
  const auto grad = grad_in.contiguous(), q = q_in.contiguous(), k = k_in.contiguous(),
             v = v_in.contiguous(), out = out_in.contiguous(), lse = lse_in.contiguous();
  const auto slots = slots_in.contiguous();
  auto grad_q = at::empty_like(q), grad_k = at::empty_like(k), grad_v = at::empty_like(v);
  const AttentionBackward tensors{
      q.const_data_ptr<float>(),        k.const_data_ptr<float>(),
      v.const_data_ptr<float>(),        out.const_data_ptr<float>(),
      grad.const_data_ptr<float>(),     lse.const_data_ptr<float>(),
      grad_q.mutable_data_ptr<float>(), grad_k.mutable_data_ptr<float>(),
      grad_v.mutable_data_ptr<float>()};
  const int64_t* slot = slots.const_data_ptr<int64_t>();
  for_each_row_and_head(cu, heads, [&](int64_t row, int64_t head) {
    const int64_t begin = cu[size_t(row)], end = cu[size_t(row) + 1];
    attend_backward(shape, tensors, begin, end, uint32_t(slot[begin]), head);
  });
  return {grad_q, grad_k, grad_v};
}

struct PackedAttention : torch::autograd::Function<PackedAttention> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& q, const at::Tensor& k,
                            const at::Tensor& v, const std::vector<int64_t>& cu,
                            const at::Tensor& slots, int64_t heads, double p, int64_t key,
                            int64_t step) {
    static const auto op = c10::Dispatcher::singleton()
                               .findSchemaOrThrow("yoke::packed_attention", "")
                               .typed<decltype(attention_cpu)>();
    at::AutoDispatchBelowADInplaceOrView below;
    auto [out, lse] = op.call(q, k, v, cu, slots, heads, p, key, step);
    context->save_for_backward({q, k, v, out, lse, slots});
    context->saved_data["cu"] = cu;
    context->saved_data["heads"] = heads;
    context->saved_data["p"] = p;
    context->saved_data["key"] = key;
    context->saved_data["step"] = step;
    return out;
  }
  static variable_list backward(AutogradContext* context, variable_list grads) {
    static const auto op = c10::Dispatcher::singleton()
                               .findSchemaOrThrow("yoke::packed_attention_backward", "")
                               .typed<decltype(attention_backward_cpu)>();
    const auto saved = context->get_saved_variables();
    auto& data = context->saved_data;
    auto [q, k, v] = op.call(grads[0], saved[0], saved[1], saved[2], saved[3], saved[4],
                             data["cu"].toIntVector(), saved[5], data["heads"].toInt(),
                             data["p"].toDouble(), data["key"].toInt(), data["step"].toInt());
    return {q, k, v, {}, {}, {}, {}, {}, {}};
  }
};

}  // namespace

TORCH_LIBRARY_FRAGMENT(yoke, m) {
  m.def(
      "packed_attention(Tensor q, Tensor k, Tensor v, int[] cu_seqlens, Tensor slots, int heads, "
      "float p, int key, int step) -> (Tensor, Tensor)");
  m.def(
      "packed_attention_backward(Tensor grad, Tensor q, Tensor k, Tensor v, Tensor out, Tensor "
      "lse, int[] cu_seqlens, Tensor slots, int heads, float p, int key, int step) -> (Tensor, "
      "Tensor, Tensor)");
}

TORCH_LIBRARY_IMPL(yoke, CPU, m) {
  m.impl("packed_attention", attention_cpu);
  m.impl("packed_attention_backward", attention_backward_cpu);
}

at::Tensor packed_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                            const std::vector<int64_t>& cu_seqlens, const at::Tensor& slot_ids,
                            int64_t heads, const DropoutSite& site) {
  if (!has_kernel("yoke::packed_attention", q))
    return packed_attention_reference(q, k, v, cu_seqlens, slot_ids, heads, site);
  return PackedAttention::apply(q, k, v, cu_seqlens, slot_ids, heads, site.p, site.key_bits(),
                                site.step);
}

at::Tensor packed_attention_reference(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                      const std::vector<int64_t>& cu_seqlens,
                                      const at::Tensor& slot_ids, int64_t heads,
                                      const DropoutSite& site) {
  const int64_t rows = int64_t(cu_seqlens.size()) - 1, tokens = q.size(0);
  int64_t longest = 0;
  for (int64_t r = 0; r < rows; ++r)
    longest = std::max(longest, cu_seqlens[size_t(r) + 1] - cu_seqlens[size_t(r)]);
  if (tokens == 0) return at::zeros_like(q) * q;
  const int64_t d = q.size(1) / heads;
  const auto cu = at::tensor(cu_seqlens, at::kLong).to(q.device());
  const auto first = cu.narrow(0, 0, rows).unsqueeze(1);
  const auto length = cu.narrow(0, 1, rows).unsqueeze(1) - first;
  const auto position = at::arange(longest, cu.options()).unsqueeze(0);
  const auto inside = position.lt(length);  // (B, L)
  const auto index = at::where(inside, first + position, first.clamp_max(tokens - 1)).flatten();
  auto padded = [&](const at::Tensor& x) {  // (B, heads, L, d)
    return x.index_select(0, index).view({rows, longest, heads, d}).transpose(1, 2);
  };
  auto scores = at::matmul(padded(q) * (1 / std::sqrt(double(d))), padded(k).transpose(2, 3));
  scores = scores.masked_fill(inside.logical_not().view({rows, 1, 1, longest}),
                              -std::numeric_limits<float>::infinity());
  // A row without tokens would be all -inf: its values are never read, only kept finite.
  scores = scores.masked_fill(length.eq(0).view({rows, 1, 1, 1}), 0.0);
  auto probabilities = at::softmax(scores, -1);
  if (site.p > 0) {
    const auto slot = slot_ids.index_select(0, first.clamp_max(tokens - 1).flatten());
    const auto blocks = at::arange((longest + 3) / 4, cu.options()).view({1, 1, 1, -1});
    const auto head = at::arange(heads, cu.options()).view({1, heads, 1, 1});
    const auto words =
        philox_words(site.step, slot.view({rows, 1, 1, 1}), position.view({1, 1, longest, 1}),
                     head * (int64_t{1} << 20) + blocks, site.key());
    const auto keep = words.flatten(3).narrow(3, 0, longest).ge(int64_t{dropout_threshold(site.p)});
    probabilities =
        at::where(keep, probabilities * float(1 / (1 - site.p)), at::zeros_like(probabilities));
  }
  const auto out = at::matmul(probabilities, padded(v)).transpose(1, 2).reshape({-1, heads * d});
  return out.index_select(0, inside.flatten().nonzero().flatten());
}

}  // namespace yoke
