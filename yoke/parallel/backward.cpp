#include "yoke/parallel/backward.h"

#include <ATen/Parallel.h>
#include <torch/csrc/autograd/custom_function.h>

namespace yoke {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// The first node of a backward, which runs on the thread of the loss's device.
struct SetThreads : torch::autograd::Function<SetThreads> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& loss, int64_t threads) {
    context->saved_data["threads"] = threads;
    return loss.clone();
  }
  static variable_list backward(AutogradContext* context, variable_list grads) {
    const int threads = int(context->saved_data["threads"].toInt());
    if (at::get_num_threads() != threads) at::set_num_threads(threads);
    return {grads[0], {}};
  }
};

}  // namespace

void backward(const at::Tensor& loss, int threads) {
  if (loss.is_cpu()) {
    loss.backward();
  } else {
    SetThreads::apply(loss, int64_t{threads}).backward();
  }
}

}  // namespace yoke
