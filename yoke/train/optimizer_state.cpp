#include "yoke/train/optimizer_state.h"

#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/zeros_like.h>

#include <memory>
#include <vector>

#include "yoke/core/error.h"
#include "yoke/train/adamw.h"

namespace yoke {
namespace {

AdamWState& state_of(MemoryGroup& memory, const FlatLayout& layout) {
  if (!memory.optimizer) memory.optimizer = make_adamw_state(memory.parameters, layout);
  return *std::static_pointer_cast<AdamWState>(memory.optimizer);
}

}  // namespace

StateDict optimizer_state(ReplicaSet& replicas) {
  c10::NoGradGuard no_grad;
  StateDict dict;
  const auto& layout = replicas.layout();
  if (layout.total == 0) return dict;
  auto& state = state_of(replicas.replica(0).memory(), layout);
  for (size_t s = 0; s < layout.slices.size(); ++s) {
    const auto& slice = layout.slices[s];
    const auto& name = replicas.names()[slice.parameter];
    const auto& shape = replicas.shapes()[slice.parameter];
    dict.insert(name + ".exp_avg", state.exp_avg.narrow(0, slice.offset, slice.numel).view(shape));
    dict.insert(name + ".exp_avg_sq",
                state.exp_avg_sq.narrow(0, slice.offset, slice.numel).view(shape));
    dict.insert(name + ".step", at::scalar_tensor(state.steps[s], at::kLong));
  }
  return dict;
}

void load_optimizer_state(ReplicaSet& replicas, const StateDict& dict, const std::string& file) {
  c10::NoGradGuard no_grad;
  const auto& layout = replicas.layout();
  if (dict.size() != 3 * layout.slices.size())
    throw Error("train.resume",
                file + ": has " + std::to_string(dict.size()) + " tensors, the model's " +
                    std::to_string(layout.slices.size()) + " trained parameters need three each");
  std::vector<int64_t> steps;
  for (const auto& slice : layout.slices) {
    const auto& name = replicas.names()[slice.parameter];
    for (const char* kind : {".exp_avg", ".exp_avg_sq"}) {
      const auto& tensor = dict.at(name + kind);
      if (tensor.sizes() != at::IntArrayRef(replicas.shapes()[slice.parameter]) ||
          tensor.scalar_type() != at::kFloat)
        throw Error("train.resume",
                    file + ": tensor \"" + name + kind + "\" is not of the parameter's shape");
    }
    steps.push_back(dict.at(name + ".step").item<int64_t>());
  }
  for (int rank = 0; rank < replicas.size(); ++rank) {
    auto& replica = replicas.replica(rank);
    if (!replica.leads_memory() || layout.total == 0) continue;
    auto& state = state_of(replica.memory(), layout);
    for (const auto& slice : layout.slices) {
      const auto& name = replicas.names()[slice.parameter];
      state.exp_avg.narrow(0, slice.offset, slice.numel)
          .copy_(dict.at(name + ".exp_avg").flatten());
      state.exp_avg_sq.narrow(0, slice.offset, slice.numel)
          .copy_(dict.at(name + ".exp_avg_sq").flatten());
    }
    state.steps = steps;
  }
}

}  // namespace yoke
