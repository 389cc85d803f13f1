#include "yoke/parallel/replica_set.h"

#include <ATen/Parallel.h>
#include <ATen/ThreadLocalState.h>
#include <c10/core/DeviceGuard.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "yoke/core/error.h"
#include "yoke/parallel/flat_ops.h"
#include "yoke/parallel/replica_set_impl.h"

namespace yoke {

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
  team_->on_failure([this] {
    meeting_->abort();
    if (moments_) moments_->abort();
  });
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

std::string ReplicaSet::signature() const {
  std::string text;
  for (const auto& [name, tensor] : parameters_of(*module_)) {
    text += name + (tensor.requires_grad() ? '+' : '-');
    for (int64_t size : tensor.sizes()) text += std::to_string(size) + ",";
    text += std::to_string(reinterpret_cast<uintptr_t>(tensor.unsafeGetTensorImpl())) + ";";
  }
  return text;
}

// Follows what the caller did to its module since the last run.
void ReplicaSet::refresh() {
  if (signature() != signature_) build();
  follow_parameters();
  follow_buffers();
  const auto source = module_->modules();
  for (size_t i = 1; i < lanes_.size(); ++i) {
    const auto own = lanes_[i].module->modules();
    for (size_t m = 0; m < own.size() && m < source.size(); ++m)
      if (own[m]->is_training() != source[m]->is_training())
        own[m]->train(source[m]->is_training());
  }
}

// Copies parameters that the caller wrote to since the last call to replicas that hold copies. The
// optimiser writes past the version counters, to all copies alike.
void ReplicaSet::follow_parameters() {
  const auto source = parameters_of(*module_);
  std::vector<uint32_t> versions;
  for (const auto& [name, tensor] : source) versions.push_back(tensor._version());
  if (versions == parameter_versions_) return;
  c10::NoGradGuard no_grad;
  for (auto& replica : replicas_) {
    if (!replica->leads_memory() || replica->rank() == 0) continue;
    auto own = parameters_of(replica->module());
    for (size_t i = 0; i < own.size(); ++i) own[i].second.copy_(source[i].second);
  }
  parameter_versions_ = std::move(versions);
}

// Copies buffers that changed in the caller's module to all others.
void ReplicaSet::follow_buffers() {
  std::vector<std::pair<const void*, uint32_t>> versions;
  const auto source = module_->named_buffers();
  for (const auto& item : source)
    if (item.value().defined())
      versions.emplace_back(item.value().unsafeGetTensorImpl(), item.value()._version());
  if (versions == buffer_versions_) return;
  c10::NoGradGuard no_grad;
  for (auto& lane : lanes_)
    if (lane.module != module_)
      for (auto& item : lane.module->named_buffers())
        if (const auto* from = source.find(item.key()); from && item.value().defined())
          if (from->data_ptr() != item.value().data_ptr()) item.value().copy_(*from);
  buffer_versions_ = std::move(versions);
}

// Runs task(rank) on the first `ranks` threads of the team as if on the caller's thread.
void ReplicaSet::on_team(int ranks, const std::function<void(int rank)>& task) {
  const at::ThreadLocalState caller;
  // Setting a thread's count also sets the default of threads that are born later.
  struct Restore {
    int threads;
    ~Restore() { at::set_num_threads(threads); }
  } restore{caller_threads_};
  team_->run([&](int rank) {
    if (rank >= ranks) return;
    const at::ThreadLocalStateGuard as_caller(caller);
    task(rank);
  });
}

void ReplicaSet::run(const std::function<void(Replica&)>& task) {
  refresh();
  run_replicas(task);
}

void ReplicaSet::run_replicas(const std::function<void(Replica&)>& task) {
  meeting_->reset();
  on_team(size(), [&](int rank) {
    auto& replica = *replicas_[size_t(rank)];
    at::set_num_threads(replica.threads());
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
  on_team(lanes(), [&](int rank) {
    at::set_num_threads(1);
    c10::NoGradGuard no_grad;
    const auto& lane = lanes_[size_t(rank)];
    c10::OptionalDeviceGuard device;
    if (!lane.device.is_cpu()) device.reset_device(lane.device);
    task(lane);
  });
}

}  // namespace yoke
