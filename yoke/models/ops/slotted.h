// Linear maps and embeddings whose parameter gradients go straight into the slot that a training
// step offers for them (yoke/core/gradient_slots.h): no fresh tensor, no copy, and for an embedding
// no dense gradient a micro-batch. Where no slot is offered they are ATen's own operators.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace yoke {

// x (T, in), weight (out, in), bias (out) -> (T, out).
at::Tensor slotted_linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias);

// weight (count, size), ids (T) -> (T, size). The row padding_idx gets no gradient; -1: none such.
at::Tensor slotted_embedding(const at::Tensor& weight, const at::Tensor& ids, int64_t padding_idx);

}  // namespace yoke
