// One optimiser step over all devices: forward and backward of every micro-batch, sums, clipping,
// optimiser. The one loop that every kind of training goes through.
//
// The rows of a step are divided into shards, a shard into micro-batches. In mode fast there is a
// shard for each replica and their gradients are reduced while backward still runs; in mode exact
// the number of shards has nothing to do with the devices, and neither has any bit of the result.
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
  bool exact = false;
  int64_t step = 0;  // from 0
  uint64_t seed = 0;
  double targets = 0;                 // of the whole global batch
  std::vector<size_t> micro_batches;  // how many each shard has; in mode fast one entry a rank
  double learning_rate = 0;
  double max_grad_norm = 0;  // 0: no clipping
};

struct StepOutput {
  double loss_sum = 0;          // over all targets, in double, in the order of shards
  double grad_norm = 0;         // before clipping
  std::vector<double> seconds;  // mode fast: forward and backward of each rank
};

// Where a micro-batch is computed.
struct Worker {
  c10::Device device;
  torch::nn::Module& module;
};

// Loss of one micro-batch on a worker: a sum over its targets.
struct MicroLoss {
  at::Tensor sum;  // 0-dim, differentiable
  double value = 0;
};

// What a step computes; called for m in [0, micro_batches[shard]) on the worker's thread.
struct StepWork {
  std::function<MicroLoss(const Worker& worker, size_t shard, size_t m)> forward;
  // Slots of the micro-batch's rows in the global batch; they key the masks of stock dropout.
  std::function<std::vector<int64_t>(size_t shard, size_t m)> slots;
  // Describes rows for errors ("rows 3, 7"); shard -1: of the whole step.
  std::function<std::string(int shard, size_t m)> rows;
};

// Throws Error that names step, device and rows: of whatever `forward` throws, of a loss or
// gradient that is not finite, and OutOfMemory (failure.h) of running out of memory. Then
// parameters, optimiser state and buffers are as before the step.
StepOutput run_step(ReplicaSet& replicas, const StepInput& input, const AdamWOptions& optimizer,
                    const StepWork& work);

}  // namespace yoke
