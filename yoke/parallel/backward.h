// Backward with a fixed number of intra-op threads wherever it runs.
#pragma once

#include <ATen/core/Tensor.h>

namespace yoke {

// loss.backward(). Autograd computes the backward of a device that is not the CPU on a thread of
// its own, born with a number of intra-op threads that has nothing to do with the caller's; the
// bits of some operators (sums of a layer normalisation, convolutions) depend on it.
void backward(const at::Tensor& loss, int threads);

}  // namespace yoke
