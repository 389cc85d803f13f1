// Logical shards on lanes (docs/contract.md): which lane computes a shard, and when, shows nowhere
// in the result.
#include <ATen/Parallel.h>
#include <c10/core/DeviceGuard.h>

#include <algorithm>
#include <atomic>
#include <map>

#include "yoke/parallel/in_process_backend.h"
#include "yoke/parallel/replica_set.h"
#include "yoke/parallel/sum_tree.h"

namespace yoke {
namespace {

using Gradients = std::shared_ptr<FlatGradients>;

// The shards that the lanes of one memory take, in order.
struct Queue {
  std::vector<int> shards;
  std::atomic<size_t> next{0};
};

// Devices get neighbouring shards, so that most additions stay on one of them.
std::map<const MemoryGroup*, Queue> deal_shards(
    const std::vector<std::unique_ptr<Replica>>& replicas, int shards) {
  std::map<const MemoryGroup*, Queue> queues;
  const int world = int(replicas.size());
  for (const auto& replica : replicas) {
    auto& queue = queues[&replica->memory()].shards;
    for (int s = shards * replica->rank() / world; s < shards * (replica->rank() + 1) / world; ++s)
      queue.push_back(s);
  }
  return queues;
}

}  // namespace

void ReplicaSet::begin_buffers(const std::vector<size_t>& micro_batches) {
  std::vector<std::shared_ptr<torch::nn::Module>> modules;
  for (auto& lane : lanes_) modules.push_back(lane.module);
  const auto first = std::find_if(micro_batches.begin(), micro_batches.end(),
                                  [](size_t count) { return count > 0; });
  buffers_.begin(std::move(modules), micro_batches.size(), size_t(first - micro_batches.begin()));
}

void ReplicaSet::run_step(const std::vector<size_t>& micro_batches,
                          const std::function<void(Replica&)>& task) {
  refresh();
  begin_buffers(micro_batches);
  moments_ = std::make_shared<MomentExchange>(micro_batches);
  run_replicas(task);
}

bool ReplicaSet::shares_device(c10::Device device) const {
  return !device.is_cpu() && std::count(devices_.begin(), devices_.end(), device) > 1;
}

void ReplicaSet::run_shards(const std::vector<size_t>& micro_batches,
                            const std::function<void(const Lane&, int)>& compute,
                            const std::function<void(Replica&)>& finish) {
  const size_t shards = micro_batches.size();
  refresh();
  bind_captures();
  begin_buffers(micro_batches);
  moments_ = nullptr;
  meeting_->reset();

  const auto take = [](MemoryGroup& memory, const GradientCapture& capture,
                       const std::shared_ptr<const FlatLayout>& layout) {
    {
      std::lock_guard lock(memory.mutex);
      if (!memory.spare.empty()) {
        auto buffer = std::move(memory.spare.back());
        memory.spare.pop_back();
        return buffer;
      }
    }
    return std::make_shared<FlatGradients>(layout, capture.parameters());
  };
  struct Held {  // a buffer and the memory it goes back to
    Gradients gradients;
    MemoryGroup* memory = nullptr;
  };
  const auto give_back = [](Held& held) {
    std::lock_guard lock(held.memory->mutex);
    held.memory->spare.push_back(std::move(held.gradients));
  };
  SumTree<Held> tree(shards, [&](Held left, Held right) {
    left.gradients->add(*right.gradients);
    synchronize(left.gradients->device());
    give_back(right);
    return left;
  });

  auto queues = deal_shards(replicas_, int(shards));
  on_team(lanes(), [&](int index) {
    at::set_num_threads(1);
    const auto& lane = lanes_[size_t(index)];
    c10::OptionalDeviceGuard device;
    if (!lane.device.is_cpu()) device.reset_device(lane.device);
    auto& queue = queues[lane.memory.get()];
    for (size_t i = queue.next++; i < queue.shards.size(); i = queue.next++) {
      const int shard = queue.shards[i];
      if (meeting_->aborted()) throw Aborted();
      if (micro_batches[size_t(shard)] == 0) {
        tree.put(size_t(shard), std::nullopt);
        continue;
      }
      Held held{take(*lane.memory, *lane.capture, layout_), lane.memory.get()};
      {
        struct Captured {
          GradientCapture& capture;
          ~Captured() { capture.end(); }
        } captured{*lane.capture};
        lane.capture->begin(*held.gradients);
        c10::AutoGradMode with_gradients(true);
        compute(lane, shard);
      }
      synchronize(lane.device);
      tree.put(size_t(shard), std::move(held));
    }
  });

  // Every memory gets the sum.
  std::vector<Held> sums;
  std::vector<char> used(layout_->slices.size(), 0);
  if (tree.root()) {
    sums.push_back(*tree.root());
    used = sums[0].gradients->used();
  }
  for (auto& replica : replicas_) {
    auto& memory = replica->memory();
    if (!replica->leads_memory()) continue;
    auto own = std::find_if(sums.begin(), sums.end(),
                            [&](const Held& held) { return held.memory == &memory; });
    if (own == sums.end()) {
      Held held{take(memory, *replica->capture_, layout_), &memory};
      held.gradients->clear();
      if (tree.root()) held.gradients->add(*sums[0].gradients);
      sums.push_back(std::move(held));
      own = sums.end() - 1;
    }
    own->gradients->fill_absent();
    memory.sums = own->gradients.get();
    memory.used = &used;
  }
  struct Restore {
    ReplicaSet& set;
    ~Restore() { set.use_reducers(); }
  } restore{*this};
  run_replicas(finish);
  for (auto& held : sums) give_back(held);
}

}  // namespace yoke
