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
#include <string>
#include <vector>

#include "yoke/parallel/coordination.h"
#include "yoke/parallel/flat_layout.h"
#include "yoke/parallel/reducer.h"

namespace yoke {

// Replicas whose parameters are the same memory. They share gradients' sums and optimiser state,
// and divide the work on them.
struct MemoryGroup {
  at::Tensor parameters;  // (layout.total) float; the module's parameters are views of it
  std::vector<int> ranks;
  std::vector<double> square_sums;  // one a chunk of the buffer
  std::shared_ptr<void> optimizer;  // state that train/ keeps beside the parameters
};

// A worker of evaluation and prediction: a device and a module to run forward passes with, on one
// intra-op thread, so that a row's numbers do not depend on how many workers there are. A replica
// is one, and every core that no replica on the CPU occupies is another.
struct Lane {
  int index = 0;
  c10::Device device = c10::Device(c10::kCPU);
  std::shared_ptr<torch::nn::Module> module;
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

  // The sums over all replicas, (layout.total), as this memory group holds them; after finish().
  const at::Tensor& gradients() const { return memory_gradients_->gradients(); }

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
  std::unique_ptr<Reducer> reducer_;
  const Reducer* memory_gradients_ = nullptr;  // the reducer of the group's first rank
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

  // Runs the function on every replica's thread, under the caller's grad mode, autocast and
  // inference mode, and throws the first error of any. Training modes are mirrored from replica 0
  // first; a change of requires_grad, shapes or the set of parameters rebuilds the buffers.
  void run(const std::function<void(Replica&)>& task);

  // The same for all lanes, without gradients; the modules are in eval mode meanwhile.
  void run_lanes(const std::function<void(const Lane&)>& task);
  int lanes() const { return int(lanes_.size()); }

 private:
  void build();
  void make_replicas();
  void bind_parameters();
  void bind_lanes();
  std::string signature() const;
  void refresh();
  int threads_of(int rank) const;

  std::shared_ptr<torch::nn::Module> module_;
  Factory factory_;
  std::vector<c10::Device> devices_;
  ReplicaSetOptions options_;
  std::shared_ptr<Rendezvous> meeting_;
  std::vector<std::string> names_;
  std::shared_ptr<const FlatLayout> layout_;
  std::string signature_;
  std::vector<std::unique_ptr<Replica>> replicas_;
  std::vector<Lane> lanes_;  // the replicas first
  int caller_threads_ = 1;
  std::unique_ptr<ThreadTeam> team_;
};

}  // namespace yoke
