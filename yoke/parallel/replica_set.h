// The devices of a run at work: one lasting thread, module and reducer a device. The caller's
// module is replica 0; replicas on the same CPU share its weights, the others hold copies.
//
//   ReplicaSet replicas(module, make_empty_module, parse_devices("2xcpu"));
//   replicas.run([&](Replica& replica) { … replica.module() …; });     // on all, first error is
//   thrown
//
// One call at a time. The caller's thread keeps its thread count, device, grad mode and generator.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "yoke/parallel/coordination.h"
#include "yoke/parallel/flat_layout.h"
#include "yoke/parallel/moment_exchange.h"
#include "yoke/parallel/reducer.h"
#include "yoke/parallel/step_buffers.h"

namespace yoke {

// Replicas whose parameters are the same memory. They share gradients' sums and optimiser state,
// and divide the work on them.
struct MemoryGroup {
  at::Tensor parameters;  // (layout.total) float; the module's parameters are views of it
  std::vector<int> ranks;
  std::vector<double> square_sums;  // one a chunk of the buffer
  std::shared_ptr<void> optimizer;  // state that train/ keeps beside the parameters

  // The sums of the step under way: its first rank's reducer's, or those of run_shards().
  const FlatGradients* sums = nullptr;
  const std::vector<char>* used = nullptr;
  // Buffers of run_shards(), reused from step to step.
  std::mutex mutex;
  std::vector<std::shared_ptr<FlatGradients>> spare;
};

// A worker of what must not depend on the number of devices (evaluation, logical shards): a device
// and a module, computing on one intra-op thread, since bits change with threads. A replica is one,
// and every core that no replica on the CPU occupies is another.
struct Lane {
  int index = 0;
  c10::Device device = c10::Device(c10::kCPU);
  std::shared_ptr<torch::nn::Module> module;
  std::shared_ptr<MemoryGroup> memory;
  std::shared_ptr<GradientCapture> capture;
};

class Replica {
 public:
  int rank() const { return rank_; }
  int world() const { return world_; }
  c10::Device device() const { return device_; }
  torch::nn::Module& module() const { return *module_; }
  Reducer& reducer() const { return *reducer_; }
  MemoryGroup& memory() const { return *memory_; }
  const FlatLayout& layout() const { return *layout_; }

  // The sums over the whole step, (layout.total), as this memory group holds them, and by slice
  // whether anybody used the parameter; after Reducer::finish() or in the second part of
  // run_shards().
  const at::Tensor& gradients() const { return memory_->sums->flat(); }
  const std::vector<char>& used() const { return *memory_->used; }

  // Intra-op threads of this replica's share of the work.
  int threads() const { return threads_; }

  // Whether this replica does what is done once a memory group.
  bool leads_memory() const { return place_ == 0; }

  // Waits until all replicas are here.
  void barrier() const;

  // This replica's part of n equal items that its memory group divides: [begin, end).
  std::pair<int64_t, int64_t> share_of(int64_t n) const;

  // The norm of all gradients, the same on every replica; all replicas must call it.
  double gradient_norm();

 private:
  friend class ReplicaSet;
  int rank_ = 0;
  int world_ = 1;
  int place_ = 0;  // in the memory group
  c10::Device device_ = c10::Device(c10::kCPU);
  std::shared_ptr<torch::nn::Module> module_;
  std::shared_ptr<const FlatLayout> layout_;
  std::shared_ptr<MemoryGroup> memory_;
  c10::intrusive_ptr<c10d::Backend> backend_;
  std::shared_ptr<GradientCapture> capture_;
  std::unique_ptr<Reducer> reducer_;
  int threads_ = 1;
};

struct ReplicaSetOptions {
  int64_t bucket_bytes = int64_t{25} << 20;
  int intra_op_threads = 0;  // of a replica on the CPU; 0: the caller's, divided among them
  // Hyper-parameter group of a parameter, by name; neighbours in the flat buffer share it.
  std::function<int(const std::string&)> group;
};

class ReplicaSet {
 public:
  // Makes a module of the same structure on the CPU; its values do not matter.
  using Factory = std::function<std::shared_ptr<torch::nn::Module>()>;

  ReplicaSet(std::shared_ptr<torch::nn::Module> module, Factory factory,
             std::vector<c10::Device> devices, ReplicaSetOptions options = {});
  ~ReplicaSet();

  int size() const { return int(replicas_.size()); }
  Replica& replica(int rank) { return *replicas_[size_t(rank)]; }
  const FlatLayout& layout() const { return *layout_; }
  // Names of the trainable parameters, in the order that layout.slices[i].parameter counts.
  const std::vector<std::string>& names() const { return names_; }
  const std::vector<std::vector<int64_t>>& shapes() const { return shapes_; }

  // Runs the function on every replica's thread, under the caller's grad mode, autocast and
  // inference mode, and throws the first error of any. Training modes are mirrored from replica 0
  // first; a change of requires_grad, shapes or the set of parameters rebuilds the buffers.
  void run(const std::function<void(Replica&)>& task);

  // As run(), for a step whose rank r has micro_batches[r] of them: the replicas that have an n-th
  // one compute it at the same moment (moments()). Buffers (step_buffers.h) are then to be
  // committed or rolled back.
  void run_step(const std::vector<size_t>& micro_batches,
                const std::function<void(Replica&)>& task);

  // The same for a step of logical shards, micro_batches[s] in shard s. Each is computed on one
  // lane with a gradient buffer of its own, and their gradients are added along one tree
  // (sum_tree.h), so that the bits of the sum depend on the shards only. A device's lanes take the
  // shards of its block in order, and `compute` runs forward and backward of one with gradients
  // enabled, where it has any rows. Then runs `finish` on every replica, where gradients() and
  // used() are those of the sum.
  void run_shards(const std::vector<size_t>& micro_batches,
                  const std::function<void(const Lane&, int shard)>& compute,
                  const std::function<void(Replica&)>& finish);

  // Null in run_shards(), where nobody waits for another.
  const std::shared_ptr<MomentExchange>& moments() const { return moments_; }
  StepBuffers& buffers() { return buffers_; }
  // Whether another replica is on the same accelerator.
  bool shares_device(c10::Device device) const;

  // The same for all lanes, without gradients; the modules are in eval mode meanwhile.
  void run_lanes(const std::function<void(const Lane&)>& task);
  int lanes() const { return int(lanes_.size()); }

 private:
  void build();
  void make_replicas();
  void bind_parameters();
  void bind_lanes();
  void bind_captures();
  void begin_buffers(const std::vector<size_t>& micro_batches);
  void use_reducers();
  void on_team(int ranks, const std::function<void(int rank)>& task);
  void run_replicas(const std::function<void(Replica&)>& task);
  void follow_buffers();
  void follow_parameters();
  std::string signature() const;
  void refresh();
  int threads_of(int rank) const;

  std::shared_ptr<torch::nn::Module> module_;
  Factory factory_;
  std::vector<c10::Device> devices_;
  ReplicaSetOptions options_;
  std::shared_ptr<Rendezvous> meeting_;
  std::vector<std::string> names_;
  std::vector<std::vector<int64_t>> shapes_;
  std::shared_ptr<const FlatLayout> layout_;
  std::string signature_;
  std::vector<std::unique_ptr<Replica>> replicas_;
  std::vector<Lane> lanes_;  // the replicas first
  std::shared_ptr<MomentExchange> moments_;
  StepBuffers buffers_;
  // Version counters of the caller's module, to see what it wrote between two calls.
  std::vector<std::pair<const void*, uint32_t>> buffer_versions_;
  std::vector<uint32_t> parameter_versions_;
  bool lanes_capture_ = false;  // those beyond the replicas, too
  int caller_threads_ = 1;
  std::unique_ptr<ThreadTeam> team_;
};

}  // namespace yoke
