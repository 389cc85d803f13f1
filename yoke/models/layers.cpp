#include "yoke/models/layers.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/tanh.h>

#include "yoke/core/error.h"
#include "yoke/core/random.h"
#include "yoke/models/ops/slotted.h"

namespace yoke {
namespace {

at::Tensor gelu_exact(const at::Tensor& x) { return at::gelu(x); }
at::Tensor gelu_tanh(const at::Tensor& x) { return at::gelu(x, "tanh"); }
at::Tensor relu(const at::Tensor& x) { return at::relu(x); }
at::Tensor silu(const at::Tensor& x) { return at::silu(x); }
at::Tensor tanh(const at::Tensor& x) { return at::tanh(x); }

bool ends_with(const std::string& text, const std::string& end) {
  return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

}  // namespace

Linear::Linear(int64_t in, int64_t out)
    : weight(register_parameter("weight", at::empty({out, in}))),
      bias(register_parameter("bias", at::empty({out}))) {}

at::Tensor Linear::forward(const at::Tensor& x) const { return slotted_linear(x, weight, bias); }

LayerNorm::LayerNorm(int64_t size, double eps)
    : weight(register_parameter("weight", at::empty({size}))),
      bias(register_parameter("bias", at::empty({size}))),
      size_(size),
      eps_(eps) {}

at::Tensor LayerNorm::forward(const at::Tensor& x) const {
  return at::layer_norm(x, {size_}, weight, bias, eps_);
}

Embedding::Embedding(int64_t count, int64_t size, int64_t padding_idx)
    : weight(register_parameter("weight", at::empty({count, size}))), padding_idx_(padding_idx) {}

at::Tensor Embedding::forward(const at::Tensor& ids) const {
  return slotted_embedding(weight, ids, padding_idx_);
}

Activation activation(const std::string& name) {
  if (name == "gelu") return gelu_exact;
  if (name == "gelu_new" || name == "gelu_pytorch_tanh") return gelu_tanh;
  if (name == "relu") return relu;
  if (name == "silu" || name == "swish") return silu;
  if (name == "tanh") return tanh;
  throw Error("models.config", "unknown activation \"" + name + "\"",
              "one of gelu, gelu_new, gelu_pytorch_tanh, relu, silu, tanh");
}

void initialize(at::Tensor parameter, const std::string& name, double deviation, uint64_t seed) {
  c10::NoGradGuard no_grad;
  if (ends_with(name, "LayerNorm.weight")) {
    parameter.fill_(1);
  } else if (parameter.dim() < 2) {
    parameter.zero_();
  } else {
    uint64_t stream = 0;  // FNV-1a of the name
    for (unsigned char c : name) stream = (stream ^ c) * 0x100000001b3ull + 0xcbf29ce484222325ull;
    PhiloxStream random(seed, stream);
    auto values = at::empty(parameter.sizes(), at::kFloat);
    float* to = values.mutable_data_ptr<float>();
    for (int64_t i = 0; i < values.numel(); ++i) to[i] = float(deviation * random.normal());
    parameter.copy_(values);
  }
}

}  // namespace yoke
