// One optimiser step over all replicas: forward and backward of every micro-batch, sums, clipping,
// optimiser. The one loop that every kind of training goes through.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "yoke/parallel/replica_set.h"
#include "yoke/train/adamw.h"

namespace yoke {

struct StepInput {
  int64_t step = 0;                   // from 0
  double targets = 0;                 // of the whole global batch
  std::vector<size_t> micro_batches;  // how many each replica has, by rank
  double learning_rate = 0;
  double max_grad_norm = 0;  // 0: no clipping
};

struct StepOutput {
  double loss_sum = 0;   // over all targets, in double, micro-batches in rank order
  double grad_norm = 0;  // before clipping
};

// Loss of one micro-batch on a replica: a sum over its targets.
struct MicroLoss {
  at::Tensor sum;  // 0-dim, differentiable
  double value = 0;
};

// `forward(replica, m)` is called for m in [0, micro_batches[rank]) on the replica's thread.
// `rows(rank, m)` describes the rows of a micro-batch for errors ("rows 3, 7"); rank -1: of the
// step. Throws Error that names step, device and rows: of whatever forward throws, of running out
// of memory, and of a loss or gradient that is not finite (then nothing has been changed).
StepOutput run_step(ReplicaSet& replicas, const StepInput& input, const AdamWOptions& optimizer,
                    const std::function<MicroLoss(Replica&, size_t m)>& forward,
                    const std::function<std::string(int rank, size_t m)>& rows);

}  // namespace yoke
