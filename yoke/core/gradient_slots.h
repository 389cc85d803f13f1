// Where an operator may leave a parameter's gradient by itself, instead of handing autograd a fresh
// tensor that somebody then copies into place. parallel/ offers a slot for each parameter during a
// training step; operators in models/ that know how use it and return no gradient for the
// parameter.
//
//   if (GradientSlot* slot = offered_gradient_slot(weight.unsafeGetTensorImpl())) { … in backward:
//     if (slot->written) slot->gradient->add_(g); else slot->gradient->copy_(g);
//     slot->written = true;
//     slot->by_rows = false;
//
// The registry may be used from any thread; a slot only by the thread that computes its replica's
// backward.
#pragma once

#include <cstdint>
#include <vector>

namespace at {
class Tensor;
}

namespace yoke {

struct GradientSlot {
  at::Tensor* gradient = nullptr;  // in the parameter's shape; what it holds is stale until written
  bool written = false;            // in this computation
  // Everything but `rows` (indices of the first dimension, in any order) holds zeros. While this is
  // so and nothing is written, all of it is zeros: rows can be added right away. An embedding
  // keeps it so, and then neither zeroing nor summing it costs more than the rows it used.
  bool by_rows = false;
  std::vector<int64_t> rows;
  bool by_autograd = false;  // the parameter's .grad is this memory; whoever offers keeps track
};

// `parameter` is the address of the parameter's TensorImpl. A null slot withdraws the offer.
void offer_gradient_slot(const void* parameter, GradientSlot* slot);

// Null when there is none.
GradientSlot* offered_gradient_slot(const void* parameter);

}  // namespace yoke
