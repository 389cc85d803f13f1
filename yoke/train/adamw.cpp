#include "yoke/train/adamw.h"

#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <memory>
#include <optional>

#include "yoke/parallel/flat_ops.h"

namespace yoke {
namespace {

// Neighbouring slices that take the same step.
struct Run {
  int64_t begin = 0;  // elements
  int64_t end = 0;
  int group = 0;
  int64_t step = 0;  // of the parameters, with this one
};

std::vector<Run> runs_of(const FlatLayout& layout, const AdamWState& state,
                         const std::vector<char>& used) {
  std::vector<Run> runs;
  for (size_t s = 0; s < layout.slices.size(); ++s) {
    if (!used[s]) continue;
    const auto& slice = layout.slices[s];
    const int64_t end = s + 1 < layout.slices.size() ? layout.slices[s + 1].offset : layout.total;
    const int64_t step = state.steps[s] + 1;
    if (!runs.empty() && runs.back().end == slice.offset && runs.back().group == slice.group &&
        runs.back().step == step) {
      runs.back().end = end;
    } else {
      runs.push_back({slice.offset, end, slice.group, step});
    }
  }
  return runs;
}

}  // namespace

std::shared_ptr<AdamWState> make_adamw_state(const at::Tensor& parameters,
                                             const FlatLayout& layout) {
  auto state = std::make_shared<AdamWState>();
  state->exp_avg = at::zeros_like(parameters);
  state->exp_avg_sq = at::zeros_like(parameters);
  state->steps.assign(layout.slices.size(), 0);
  return state;
}

void adamw_step(Replica& replica, const AdamWOptions& options, double learning_rate,
                double divisor) {
  c10::NoGradGuard no_grad;
  auto& memory = replica.memory();
  const auto& layout = replica.layout();
  if (layout.total == 0) return;
  if (replica.leads_memory() && !memory.optimizer)
    memory.optimizer = make_adamw_state(memory.parameters, layout);
  replica.barrier();
  auto& state = *std::static_pointer_cast<AdamWState>(memory.optimizer);
  const auto& gradients = replica.gradients();
  const auto& used = replica.used();
  const auto options_here = memory.parameters.options();
  const std::optional<at::Tensor> scale =
      divisor == 1 ? std::nullopt : std::optional(at::full({}, divisor, options_here));

  // Everything that needs memory comes before the first write, on all replicas: a step that runs
  // out of memory has changed nothing.
  struct Call {
    Run run;
    at::Tensor parameters, gradients, exp_avg, exp_avg_sq, step;
  };
  std::vector<Call> calls;
  const auto [first, last] = replica.share_of(chunk_count(layout.total));
  const int64_t begin = first * flat_chunk, end = std::min(last * flat_chunk, layout.total);
  for (const auto& run : runs_of(layout, state, used)) {
    const int64_t from = std::max(run.begin, begin), to = std::min(run.end, end);
    if (from >= to) continue;
    auto part = [&](const at::Tensor& flat) { return flat.narrow(0, from, to - from); };
    calls.push_back({run, part(memory.parameters), part(gradients), part(state.exp_avg),
                     part(state.exp_avg_sq), at::full({}, double(run.step), options_here)});
  }
  replica.barrier();
  for (const auto& c : calls)
    at::_fused_adamw_({c.parameters}, {c.gradients}, {c.exp_avg}, {c.exp_avg_sq}, {}, {c.step},
                      learning_rate, options.beta1, options.beta2,
                      options.weight_decay[size_t(c.run.group)], options.eps, /*amsgrad=*/false,
                      /*maximize=*/false, scale);
  replica.barrier();
  if (replica.leads_memory())
    for (size_t s = 0; s < used.size(); ++s) state.steps[s] += used[s] ? 1 : 0;
}

}  // namespace yoke
