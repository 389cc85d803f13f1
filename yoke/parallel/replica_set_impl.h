// Shared by the files that make up ReplicaSet.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <string>
#include <utility>
#include <vector>

namespace yoke {

// Points `target` at the memory of `source`, as source.detach() would: autograd sees writes to one
// as writes to the other.
void alias(at::Tensor& target, const at::Tensor& source);

// Named parameters in registration order; tied ones are listed once.
std::vector<std::pair<std::string, at::Tensor>> parameters_of(const torch::nn::Module& module);

// Those of them that require gradients.
std::vector<at::Tensor> trainable(const torch::nn::Module& module);

}  // namespace yoke
