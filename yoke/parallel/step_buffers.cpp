#include "yoke/parallel/step_buffers.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/tensor.h>

#include <algorithm>
#include <map>

namespace yoke {
namespace {

at::Tensor host_copy(const at::Tensor& t) {
  return t.detach().to(at::kCPU, t.scalar_type(), /*non_blocking=*/false, /*copy=*/true);
}

}  // namespace

void StepBuffers::begin(std::vector<std::shared_ptr<torch::nn::Module>> modules, size_t shards,
                        size_t first_shard) {
  c10::NoGradGuard no_grad;
  modules_ = std::move(modules);
  first_shard_ = first_shard;
  before_.clear();
  after_.clear();
  norms_.assign(shards, {});
  for (const auto& item : modules_[0]->named_buffers())
    if (item.value().defined()) before_.emplace_back(item.key(), host_copy(item.value()));
}

void StepBuffers::write(const Values& values, torch::nn::Module& module) {
  if (values.empty()) return;
  c10::NoGradGuard no_grad;
  auto own = module.named_buffers();
  for (const auto& [name, value] : values)
    if (auto* buffer = own.find(name)) buffer->copy_(value);
}

void StepBuffers::load(torch::nn::Module& module) const { write(before_, module); }

void StepBuffers::take(torch::nn::Module& module, size_t shard, std::vector<NormStatistics> norms) {
  if (before_.empty()) return;
  std::map<const void*, std::string> names;
  for (const auto& item : module.named_buffers())
    names[item.value().unsafeGetTensorImpl()] = item.key();
  for (auto& statistics : norms)
    norms_[shard].push_back(
        {names[statistics.running_mean], names[statistics.running_var], std::move(statistics)});
  if (shard != first_shard_) return;
  for (const auto& item : module.named_buffers())
    if (item.value().defined()) after_.emplace_back(item.key(), host_copy(item.value()));
}

// As one batch normalisation over all rows of the step would have moved them.
void StepBuffers::move_running_statistics() {
  std::map<std::string, Named> layers;  // by running_mean
  for (auto& shard : norms_)
    for (auto& named : shard) {
      auto [found, fresh] = layers.try_emplace(named.running_mean, named);
      if (!fresh) found->second.statistics.moments.merge(named.statistics.moments);
    }
  const auto find = [](Values& values, const std::string& name) {
    return std::find_if(values.begin(), values.end(),
                        [&](const auto& entry) { return entry.first == name; });
  };
  for (auto& [name, layer] : layers) {
    auto& moments = layer.statistics.moments;
    const double momentum = layer.statistics.momentum;
    for (auto& variance : moments.m2) variance /= std::max(1.0, moments.count - 1);
    const auto move = [&](const std::string& buffer, const std::vector<double>& value) {
      const auto from = find(before_, buffer), to = find(after_, buffer);
      if (from == before_.end() || to == after_.end()) return;
      to->second.copy_(from->second.to(at::kDouble) * (1 - momentum) +
                       at::tensor(value, at::kDouble) * momentum);
    };
    move(layer.running_mean, moments.mean);
    move(layer.running_var, moments.m2);
    const auto dot = name.rfind('.');
    const auto counter = (dot == std::string::npos ? "" : name.substr(0, dot + 1)) +
                         std::string("num_batches_tracked");
    const auto from = find(before_, counter), to = find(after_, counter);
    if (from != before_.end() && to != after_.end()) to->second.copy_(from->second + 1);
  }
}

void StepBuffers::commit() {
  if (before_.empty()) return;
  c10::NoGradGuard no_grad;
  if (after_.empty()) return roll_back();
  move_running_statistics();
  for (auto& module : modules_) write(after_, *module);
  modules_.clear();
}

void StepBuffers::roll_back() {
  for (auto& module : modules_) write(before_, *module);
  modules_.clear();
}

}  // namespace yoke
