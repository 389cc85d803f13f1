// AdamW (Loshchilov and Hutter 2019) over the flat buffers of a replica set, as torch.optim.AdamW:
// a parameter that no replica used in a step keeps its value and its moments.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "yoke/parallel/replica_set.h"

namespace yoke {

struct AdamWOptions {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  std::vector<double> weight_decay;  // by group of the flat layout
};

// State of one memory group.
struct AdamWState {
  at::Tensor exp_avg, exp_avg_sq;  // (layout.total) float
  std::vector<int64_t> steps;      // by slice
};

// Zeros for parameters of that layout, on the device of `parameters` (layout.total).
std::shared_ptr<AdamWState> make_adamw_state(const at::Tensor& parameters,
                                             const FlatLayout& layout);

// One step on this replica's part of its memory group; every replica of the set must call it, with
// the sums in place (Replica::gradients()). Gradients are divided by `divisor` first (1: as they
// are).
void adamw_step(Replica& replica, const AdamWOptions& options, double learning_rate,
                double divisor);

}  // namespace yoke
