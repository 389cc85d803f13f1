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
      meeting_(std::make_shared<Rendezvous>(int(devices_.size()))),
      caller_threads_(at::get_num_threads()) {
  build();
  team_ = std::make_unique<ThreadTeam>(lanes());
  team_->on_failure([this] { meeting_->abort(); });
}

// Replicas on the CPU divide the caller's threads; kernels of simulated devices run on the CPU too.
int ReplicaSet::threads_of(int rank) const {
  if (options_.intra_op_threads > 0) return options_.intra_op_threads;
  const bool on_cpu = devices_[size_t(rank)].is_cpu();
  const auto sharing = std::count_if(devices_.begin(), devices_.end(),
                                     [&](c10::Device d) { return d.is_cpu() == on_cpu; });
  return std::max(1, caller_threads_ / int(sharing));
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
  bind_lanes();
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

// Lanes beyond the replicas read the CPU's weights.
void ReplicaSet::bind_lanes() {
  c10::NoGradGuard no_grad;
  lanes_.resize(std::min(lanes_.size(), replicas_.size()));
  for (size_t i = lanes_.size(); i < replicas_.size(); ++i)
    lanes_.push_back({int(i), replicas_[i]->device(), replicas_[i]->module_});
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
    Lane lane{int(lanes_.size()), source->device(), factory_()};
    for (auto& item : lane.module->named_parameters()) {
      item.value().set_requires_grad(parameters[item.key()].requires_grad());
      alias(item.value(), parameters[item.key()]);
    }
    for (auto& item : lane.module->named_buffers()) alias(item.value(), buffers[item.key()]);
    lanes_.push_back(std::move(lane));
  }
}

// Follows what the caller did to its module since the last run.
void ReplicaSet::refresh() {
  if (signature() != signature_) build();
  const auto source = module_->modules();
  for (size_t i = 1; i < lanes_.size(); ++i) {
    const auto own = lanes_[i].module->modules();
    for (size_t m = 0; m < own.size() && m < source.size(); ++m)
      if (own[m]->is_training() != source[m]->is_training())
        own[m]->train(source[m]->is_training());
  }
}

namespace {

// Runs task(rank) on the first `ranks` threads of the team as if on the caller's thread.
void run_team(ThreadTeam& team, int ranks, int caller_threads,
              const std::function<void(int rank)>& task) {
  const at::ThreadLocalState caller;
  // Setting a thread's count also sets the default of threads that are born later.
  struct Restore {
    int threads;
    ~Restore() { at::set_num_threads(threads); }
  } restore{caller_threads};
  team.run([&](int rank) {
    if (rank >= ranks) return;
    const at::ThreadLocalStateGuard as_caller(caller);
    task(rank);
  });
}

}  // namespace

void ReplicaSet::run(const std::function<void(Replica&)>& task) {
  refresh();
  meeting_->reset();
  run_team(*team_, size(), caller_threads_, [&](int rank) {
    at::set_num_threads(threads_of(rank));
    auto& replica = *replicas_[size_t(rank)];
    c10::OptionalDeviceGuard device;
    if (!replica.device().is_cpu()) device.reset_device(replica.device());
    task(replica);
  });
}

void ReplicaSet::run_lanes(const std::function<void(const Lane&)>& task) {
  refresh();
  // Each sub-module's own mode comes back afterwards.
  struct EvalMode {
    explicit EvalMode(std::vector<Lane>& all) {
      for (auto& lane : all)
        for (auto& module : lane.module->modules())
          modes.emplace_back(module, module->is_training());
      for (auto& lane : all) lane.module->eval();
    }
    ~EvalMode() {
      for (auto& [module, training] : modes)
        if (module->is_training() != training) module->train(training);
    }
    std::vector<std::pair<std::shared_ptr<torch::nn::Module>, bool>> modes;
  } eval_mode(lanes_);
  run_team(*team_, lanes(), caller_threads_, [&](int rank) {
    at::set_num_threads(1);
    c10::NoGradGuard no_grad;
    const auto& lane = lanes_[size_t(rank)];
    c10::OptionalDeviceGuard device;
    if (!lane.device.is_cpu()) device.reset_device(lane.device);
    task(lane);
  });
}

}  // namespace yoke
