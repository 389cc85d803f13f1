// How a ReplicaSet is made: one module a device, parameters in flat buffers, workers for every
// core.
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <set>

#include "yoke/core/error.h"
#include "yoke/parallel/flat_ops.h"
#include "yoke/parallel/in_process_backend.h"
#include "yoke/parallel/replica_set.h"
#include "yoke/parallel/replica_set_impl.h"

namespace yoke {
namespace {

// Replicas share memory where they run on the same CPU; every other replica has its own.
bool shares_memory(c10::Device a, c10::Device b) { return a.is_cpu() && b.is_cpu(); }

}  // namespace

void alias(at::Tensor& target, const at::Tensor& source) {
  target.set_data(source.variable_data());
  torch::autograd::impl::set_version_counter(target,
                                             torch::autograd::impl::version_counter(source));
}

std::vector<std::pair<std::string, at::Tensor>> parameters_of(const torch::nn::Module& module) {
  std::vector<std::pair<std::string, at::Tensor>> unique;
  std::set<const void*> seen;  // tied parameters are listed once
  for (const auto& item : module.named_parameters())
    if (item.value().defined() && seen.insert(item.value().unsafeGetTensorImpl()).second)
      unique.emplace_back(item.key(), item.value());
  return unique;
}

std::vector<at::Tensor> trainable(const torch::nn::Module& module) {
  std::vector<at::Tensor> tensors;
  for (auto& [name, tensor] : parameters_of(module))
    if (tensor.requires_grad()) tensors.push_back(tensor);
  return tensors;
}

void ReplicaSet::make_replicas() {
  c10::NoGradGuard no_grad;
  for (size_t rank = 0; rank < devices_.size(); ++rank) {
    auto replica = std::make_unique<Replica>();
    replica->rank_ = int(rank);
    replica->world_ = int(devices_.size());
    replica->device_ = devices_[rank];
    replica->module_ = rank == 0 ? module_ : factory_();
    replica->module_->to(devices_[rank]);
    replica->backend_ = c10::make_intrusive<InProcessBackend>(int(rank), meeting_);
    for (auto& former : replicas_)
      if (shares_memory(former->device_, replica->device_)) {
        replica->memory_ = former->memory_;
        break;
      }
    if (!replica->memory_) replica->memory_ = std::make_shared<MemoryGroup>();
    replica->place_ = int(replica->memory_->ranks.size());
    replica->memory_->ranks.push_back(int(rank));
    replicas_.push_back(std::move(replica));
  }
}

void ReplicaSet::bind_parameters() {
  c10::NoGradGuard no_grad;
  const auto source = parameters_of(*module_);
  for (size_t rank = 0; rank < replicas_.size(); ++rank) {
    auto& replica = *replicas_[rank];
    auto own = parameters_of(replica.module());
    if (own.size() != source.size())
      throw Error("parallel.replicas",
                  "the factory makes a module with " + std::to_string(own.size()) +
                      " parameters, the model has " + std::to_string(source.size()));
    auto& memory = *replica.memory_;
    if (replica.place_ == 0 && layout_->total > 0)
      memory.parameters = at::zeros({layout_->total},
                                    at::TensorOptions().dtype(at::kFloat).device(replica.device_));
    memory.square_sums.assign(size_t(chunk_count(layout_->total)), 0.0);
    memory.optimizer.reset();

    const auto shared = parameters_of(replicas_[size_t(memory.ranks[0])]->module());
    size_t trained = 0;
    for (size_t i = 0; i < own.size(); ++i) {
      auto& [name, tensor] = own[i];
      const at::Tensor& from = source[i].second;
      if (name != source[i].first || tensor.sizes() != from.sizes())
        throw Error("parallel.replicas", "the factory's module has \"" + name +
                                             "\" where the model has \"" + source[i].first + "\"");
      tensor.set_requires_grad(from.requires_grad());
      if (replica.place_ > 0) {
        alias(tensor, shared[i].second);
      } else if (from.requires_grad()) {
        const auto slice = std::find_if(layout_->slices.begin(), layout_->slices.end(),
                                        [&](const FlatSlice& s) { return s.parameter == trained; });
        auto place = memory.parameters.narrow(0, slice->offset, slice->numel).view(from.sizes());
        place.copy_(from);
        tensor.set_data(place);
      } else if (rank > 0) {
        tensor.copy_(from);
      }
      if (from.requires_grad()) ++trained;
    }
  }
}

void ReplicaSet::build() {
  for (auto& replica : replicas_) {
    replica->reducer_.reset();
    replica->capture_.reset();
    replica->memory_->sums = nullptr;
    replica->memory_->spare.clear();
  }
  lanes_.resize(std::min(lanes_.size(), replicas_.size()));
  lanes_capture_ = false;
  if (replicas_.empty()) make_replicas();
  names_.clear();
  shapes_.clear();
  std::vector<std::pair<int64_t, int>> sizes;
  for (const auto& [name, tensor] : parameters_of(*module_)) {
    if (!tensor.requires_grad()) continue;
    if (tensor.scalar_type() != at::kFloat)
      throw Error("parallel.replicas",
                  "parameter \"" + name + "\" is of type " + c10::toString(tensor.scalar_type()),
                  "float32 parameters, or freeze this one");
    names_.push_back(name);
    shapes_.push_back(tensor.sizes().vec());
    sizes.emplace_back(tensor.numel(), options_.group ? options_.group(name) : 0);
  }
  layout_ = std::make_shared<const FlatLayout>(FlatLayout::make(
      sizes, std::max<int64_t>(1, options_.bucket_bytes / int64_t(sizeof(float)))));
  bind_parameters();
  bool one_memory = true;
  for (auto& replica : replicas_) one_memory &= replica->memory_ == replicas_[0]->memory_;
  for (auto& replica : replicas_) {
    replica->layout_ = layout_;
    replica->capture_ = std::make_shared<GradientCapture>(trainable(replica->module()), layout_);
    replica->reducer_ =
        std::make_unique<Reducer>(replica->capture_, layout_, replica->backend_, one_memory);
    replica->threads_ = threads_of(replica->rank());
  }
  use_reducers();
  bind_lanes();
  buffer_versions_.clear();
  parameter_versions_.clear();
  for (const auto& [name, tensor] : parameters_of(*module_))
    parameter_versions_.push_back(tensor._version());
  signature_ = signature();
}

void ReplicaSet::use_reducers() {
  for (auto& replica : replicas_)
    if (replica->leads_memory()) {
      replica->memory_->sums = &replica->reducer_->gradients();
      replica->memory_->used = &replica->reducer_->used();
    }
}

// Lanes beyond the replicas read the CPU's weights.
void ReplicaSet::bind_lanes() {
  c10::NoGradGuard no_grad;
  lanes_.clear();
  for (auto& replica : replicas_)
    lanes_.push_back({replica->rank(), replica->device(), replica->module_, replica->memory_,
                      replica->capture_});
  const Replica* source = nullptr;
  int on_cpu = 0;
  for (auto& replica : replicas_)
    if (replica->device().is_cpu()) {
      if (!source) source = replica.get();
      ++on_cpu;
    }
  if (!source) return;
  const auto parameters = source->module().named_parameters();
  const auto buffers = source->module().named_buffers();
  for (; on_cpu < caller_threads_; ++on_cpu) {
    Lane lane{int(lanes_.size()), source->device(), factory_(), source->memory_, nullptr};
    for (auto& item : lane.module->named_parameters()) {
      item.value().set_requires_grad(parameters[item.key()].requires_grad());
      alias(item.value(), parameters[item.key()]);
    }
    for (auto& item : lane.module->named_buffers()) alias(item.value(), buffers[item.key()]);
    lanes_.push_back(std::move(lane));
  }
}

// Gives the lanes beyond the replicas what training needs: gradients and buffers of their own.
void ReplicaSet::bind_captures() {
  if (lanes_capture_) return;
  c10::NoGradGuard no_grad;
  for (size_t i = replicas_.size(); i < lanes_.size(); ++i) {
    lanes_[i].capture = std::make_shared<GradientCapture>(trainable(*lanes_[i].module), layout_);
    for (auto& item : lanes_[i].module->named_buffers())
      if (item.value().defined()) item.value().set_data(item.value().clone());
  }
  lanes_capture_ = true;
}

}  // namespace yoke
