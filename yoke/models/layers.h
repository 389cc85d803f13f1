// The layers that models are made of. Their parameters carry Hugging Face's names and are
// uninitialised until a checkpoint or initialize() fills them, so that a replica costs no time.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <cstdint>
#include <string>

namespace yoke {

// y = x weight^T + bias; weight (out, in), bias (out).
class Linear : public torch::nn::Module {
 public:
  Linear(int64_t in, int64_t out);
  at::Tensor forward(const at::Tensor& x) const;  // (…, in) -> (…, out)

  at::Tensor weight, bias;
};

// weight and bias (size), over the last dimension.
class LayerNorm : public torch::nn::Module {
 public:
  LayerNorm(int64_t size, double eps);
  at::Tensor forward(const at::Tensor& x) const;

  at::Tensor weight, bias;

 private:
  int64_t size_;
  double eps_;
};

// weight (count, size). The row of `padding_idx` gets no gradient, as in torch.nn.Embedding.
class Embedding : public torch::nn::Module {
 public:
  Embedding(int64_t count, int64_t size, int64_t padding_idx = -1);
  at::Tensor forward(const at::Tensor& ids) const;  // (T) -> (T, size)

  at::Tensor weight;

 private:
  int64_t padding_idx_;
};

// An activation by its name in config.json: gelu, gelu_new, gelu_pytorch_tanh, relu, silu, tanh.
using Activation = at::Tensor (*)(const at::Tensor&);
Activation activation(const std::string& name);

// Draws a parameter as BERT does, from (seed, name) only: matrices normal with this deviation,
// biases zero, LayerNorm weights one.
void initialize(at::Tensor parameter, const std::string& name, double deviation, uint64_t seed);

}  // namespace yoke
