#include "yoke/parallel/replica_set.h"

#include <ATen/Parallel.h>
#include <ATen/ThreadLocalState.h>
#include <ATen/ops/zeros.h>
#include <c10/core/DeviceGuard.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>

#include "yoke/core/error.h"
#include "yoke/parallel/flat_ops.h"
#include "yoke/parallel/in_process_backend.h"

namespace yoke {
namespace {

// Points `target` at the memory of `source`, as source.detach() would: autograd sees writes to one
// as writes to the other.
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

// Replicas share memory where they run on the same CPU; every other replica has its own.
bool shares_memory(c10::Device a, c10::Device b) { return a.is_cpu() && b.is_cpu(); }

}  // namespace

void Replica::barrier() const { backend_->barrier()->wait(); }

std::pair<int64_t, int64_t> Replica::share_of(int64_t n) const {
  const auto members = int64_t(memory_->ranks.size());
  return {n * place_ / members, n * (place_ + 1) / members};
}

double Replica::gradient_norm() {
  const int64_t total = layout_->total;
  const auto [first, last] = share_of(chunk_count(total));
  if (first < last) {
    const int64_t begin = first * flat_chunk, end = std::min(last * flat_chunk, total);
    const auto sums = chunk_square_sums(gradients().narrow(0, begin, end - begin)).cpu();
    std::copy_n(sums.const_data_ptr<double>(), last - first, memory_->square_sums.begin() + first);
  }
  barrier();
  return std::sqrt(std::accumulate(memory_->square_sums.begin(), memory_->square_sums.end(), 0.0));
}

ReplicaSet::ReplicaSet(std::shared_ptr<torch::nn::Module> module, Factory factory,
                       std::vector<c10::Device> devices, ReplicaSetOptions options)
    : module_(std::move(module)),
      factory_(std::move(factory)),
      devices_(std::move(devices)),
      options_(std::move(options)),
      meeting_(std::make_shared<Rendezvous>(int(devices_.size()))) {
  const int caller_threads = at::get_num_threads();
  const auto on_cpu = std::count_if(devices_.begin(), devices_.end(),
                                    [](c10::Device device) { return device.is_cpu(); });
  build();
  team_ =
      std::make_unique<ThreadTeam>(int(devices_.size()), [this, caller_threads, on_cpu](int rank) {
        const auto device = devices_[size_t(rank)];
        int threads = options_.intra_op_threads;
        if (threads == 0)
          threads = device.is_cpu()
                        ? std::max<int>(1, caller_threads / int(std::max<int64_t>(on_cpu, 1)))
                        : std::max(1, caller_threads / int(devices_.size()));
        at::set_num_threads(threads);
      });
  team_->on_failure([this] { meeting_->abort(); });
  team_->run([](int) {});
  // Setting a thread's count also sets the default of threads that are born later.
  at::set_num_threads(caller_threads);
}

ReplicaSet::~ReplicaSet() { team_.reset(); }

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

    size_t trained = 0;
    for (size_t i = 0; i < own.size(); ++i) {
      auto& [name, tensor] = own[i];
      const at::Tensor& from = source[i].second;
      if (name != source[i].first || tensor.sizes() != from.sizes())
        throw Error("parallel.replicas", "the factory's module has \"" + name +
                                             "\" where the model has \"" + source[i].first + "\"");
      tensor.set_requires_grad(from.requires_grad());
      if (replica.place_ > 0) {
        alias(tensor, parameters_of(replicas_[size_t(memory.ranks[0])]->module())[i].second);
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
    if (rank > 0) {
      const auto buffers = module_->named_buffers();
      for (auto& buffer : replica.module().named_buffers())
        if (const auto* from = buffers.find(buffer.key())) buffer.value().copy_(*from);
    }
  }
}

void ReplicaSet::build() {
  for (auto& replica : replicas_) replica->reducer_.reset();
  if (replicas_.empty()) make_replicas();
  names_.clear();
  std::vector<std::pair<int64_t, int>> sizes;
  for (const auto& [name, tensor] : parameters_of(*module_)) {
    if (!tensor.requires_grad()) continue;
    if (tensor.scalar_type() != at::kFloat)
      throw Error("parallel.replicas",
                  "parameter \"" + name + "\" is of type " + c10::toString(tensor.scalar_type()),
                  "float32 parameters, or freeze this one");
    names_.push_back(name);
    sizes.emplace_back(tensor.numel(), options_.group ? options_.group(name) : 0);
  }
  layout_ = std::make_shared<const FlatLayout>(FlatLayout::make(
      sizes, std::max<int64_t>(1, options_.bucket_bytes / int64_t(sizeof(float)))));
  bind_parameters();
  bool one_memory = true;
  for (auto& replica : replicas_) one_memory &= replica->memory_ == replicas_[0]->memory_;
  for (auto& replica : replicas_) {
    replica->layout_ = layout_;
    replica->reducer_ = std::make_unique<Reducer>(trainable(replica->module()), layout_,
                                                  replica->backend_, one_memory);
    replica->memory_gradients_ = replicas_[size_t(replica->memory_->ranks[0])]->reducer_.get();
  }
  signature_ = signature();
}

std::string ReplicaSet::signature() const {
  std::string text;
  for (const auto& [name, tensor] : parameters_of(*module_)) {
    text += name + (tensor.requires_grad() ? '+' : '-');
    for (int64_t size : tensor.sizes()) text += std::to_string(size) + ",";
    text += std::to_string(reinterpret_cast<uintptr_t>(tensor.unsafeGetTensorImpl())) + ";";
  }
  return text;
}

void ReplicaSet::mirror_training() const {
  const auto source = module_->modules();
  for (size_t rank = 1; rank < replicas_.size(); ++rank) {
    const auto own = replicas_[rank]->module().modules();
    for (size_t i = 0; i < own.size() && i < source.size(); ++i)
      if (own[i]->is_training() != source[i]->is_training())
        own[i]->train(source[i]->is_training());
  }
}

void ReplicaSet::run(const std::function<void(Replica&)>& task) {
  if (signature() != signature_) build();
  mirror_training();
  meeting_->reset();
  const at::ThreadLocalState caller;
  team_->run([&](int rank) {
    const at::ThreadLocalStateGuard as_caller(caller);
    auto& replica = *replicas_[size_t(rank)];
    c10::OptionalDeviceGuard device;
    if (!replica.device().is_cpu()) device.reset_device(replica.device());
    task(replica);
  });
}

}  // namespace yoke
