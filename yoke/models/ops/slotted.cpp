#include "yoke/models/ops/slotted.h"

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/sum.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "yoke/core/gradient_slots.h"
#include "yoke/core/multiversion.h"
#include "yoke/models/ops/dropout.h"

namespace yoke {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

GradientSlot* slot_of(const at::Tensor& parameter) {
  if (!c10::GradMode::is_enabled() || !parameter.requires_grad()) return nullptr;
  return offered_gradient_slot(parameter.unsafeGetTensorImpl());
}

int64_t as_int(GradientSlot* slot) { return reinterpret_cast<int64_t>(slot); }
GradientSlot* as_slot(const c10::IValue& value) {
  return reinterpret_cast<GradientSlot*>(value.toInt());
}

struct LinearIntoSlot : torch::autograd::Function<LinearIntoSlot> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& weight,
                            const at::Tensor& bias, int64_t weight_slot, int64_t bias_slot) {
    at::AutoDispatchBelowADInplaceOrView below;
    context->save_for_backward({x, weight});
    context->saved_data["weight"] = weight_slot;
    context->saved_data["bias"] = bias_slot;
    return at::linear(x, weight, bias);
  }
  static variable_list backward(AutogradContext* context, variable_list grads) {
    const auto saved = context->get_saved_variables();
    const auto& x = saved[0];
    const auto grad = grads[0].contiguous();
    auto* weight = as_slot(context->saved_data["weight"]);
    if (weight->written) {
      weight->gradient->addmm_(grad.t(), x);
    } else {
      at::mm_out(*weight->gradient, grad.t(), x);
    }
    weight->written = true;
    weight->by_rows = false;
    auto* bias = as_slot(context->saved_data["bias"]);
    if (bias->written) {
      bias->gradient->add_(grad.sum(0));
    } else {
      at::sum_out(*bias->gradient, grad, {0});
    }
    bias->written = true;
    bias->by_rows = false;
    return {context->needs_input_grad(0) ? grad.mm(saved[1]) : at::Tensor(), {}, {}, {}, {}};
  }
};

YOKE_MULTIVERSION void add_columns(float* table, const float* grad, const int64_t* ids,
                                   int64_t tokens, int64_t size, int64_t padding_idx, int64_t begin,
                                   int64_t end) {
  for (int64_t t = 0; t < tokens; ++t) {
    if (ids[t] == padding_idx) continue;
    float* row = table + ids[t] * size;
    for (int64_t c = begin; c < end; ++c) row[c] += grad[t * size + c];
  }
}

// table[ids[t]] += grad[t] for t = 0, 1, … but those of padding_idx: threads take columns, so each
// element is added to in token order whatever their number.
void embedding_add_cpu(at::Tensor table, const at::Tensor& grad_in, const at::Tensor& ids_in,
                       int64_t padding_idx) {
  TORCH_CHECK(table.dim() == 2 && table.is_contiguous() && table.scalar_type() == at::kFloat &&
                  grad_in.dim() == 2 && grad_in.size(1) == table.size(1) &&
                  grad_in.size(0) == ids_in.numel(),
              "yoke::embedding_add_: table (count, size), grad (tokens, size), ids (tokens)");
  const auto grad = grad_in.contiguous();
  const auto ids = ids_in.contiguous();
  const int64_t tokens = ids.numel(), size = table.size(1);
  const int64_t* id = ids.const_data_ptr<int64_t>();
  for (int64_t t = 0; t < tokens; ++t)
    TORCH_CHECK_INDEX(id[t] >= 0 && id[t] < table.size(0), "id ", id[t], " is out of range");
  at::parallel_for(0, (size + 63) / 64, std::max<int64_t>(1, 8192 / std::max<int64_t>(tokens, 1)),
                   [&](int64_t begin, int64_t end) {
                     add_columns(table.mutable_data_ptr<float>(), grad.const_data_ptr<float>(), id,
                                 tokens, size, padding_idx, begin * 64, std::min(end * 64, size));
                   });
}

struct EmbeddingIntoSlot : torch::autograd::Function<EmbeddingIntoSlot> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& weight,
                            const at::Tensor& ids, int64_t padding_idx, int64_t slot) {
    at::AutoDispatchBelowADInplaceOrView below;
    context->save_for_backward({ids});
    context->saved_data["slot"] = slot;
    context->saved_data["padding_idx"] = padding_idx;
    return at::embedding(weight, ids, padding_idx);
  }
  static variable_list backward(AutogradContext* context, variable_list grads) {
    static const auto op = c10::Dispatcher::singleton()
                               .findSchemaOrThrow("yoke::embedding_add_", "")
                               .typed<decltype(embedding_add_cpu)>();
    auto* slot = as_slot(context->saved_data["slot"]);
    const auto ids = context->get_saved_variables()[0];
    if (!slot->written && !slot->by_rows) {
      slot->gradient->zero_();
      slot->by_rows = true;
      slot->rows.clear();
    }
    op.call(*slot->gradient, grads[0], ids, context->saved_data["padding_idx"].toInt());
    slot->written = true;
    if (slot->by_rows) {
      const auto on_host = ids.cpu().contiguous();
      const int64_t* first = on_host.const_data_ptr<int64_t>();
      slot->rows.insert(slot->rows.end(), first, first + on_host.numel());
    }
    return {{}, {}, {}, {}};
  }
};

}  // namespace

TORCH_LIBRARY_FRAGMENT(yoke, m) {
  m.def("embedding_add_(Tensor(a!) table, Tensor grad, Tensor ids, int padding_idx) -> ()");
}
TORCH_LIBRARY_IMPL(yoke, CPU, m) { m.impl("embedding_add_", embedding_add_cpu); }

at::Tensor slotted_linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
  GradientSlot* weight_slot = slot_of(weight);
  GradientSlot* bias_slot = slot_of(bias);
  if (!weight_slot || !bias_slot || x.dim() != 2) return at::linear(x, weight, bias);
  return LinearIntoSlot::apply(x, weight, bias, as_int(weight_slot), as_int(bias_slot));
}

at::Tensor slotted_embedding(const at::Tensor& weight, const at::Tensor& ids, int64_t padding_idx) {
  GradientSlot* slot = slot_of(weight);
  if (!slot || !has_kernel("yoke::embedding_add_", weight))
    return at::embedding(weight, ids, padding_idx);
  return EmbeddingIntoSlot::apply(weight, ids, padding_idx, as_int(slot));
}

}  // namespace yoke
