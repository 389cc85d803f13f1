// Which rows make up each global batch, and how a batch is divided into micro-batches. All of it is
// arithmetic on row lengths: a batch depends on (seed, epoch, step) only, never on devices.
//
//   TrainPlan plan(lengths, {.batch_size = 32, .epochs = 3, .seed = 42});
//   for (int64_t step = 0; step < plan.steps(); ++step)
//     auto shares = deal(plan.batch(step), lengths, devices.size(), limits);   // by device
#pragma once

#include <cstdint>
#include <vector>

namespace yoke {

// Limits of one forward pass; 0 is no limit. A single row longer than `tokens` still makes a
// micro-batch of its own.
struct MicroBatchLimits {
  int64_t rows = 0;
  int64_t tokens = 0;
};

// One optimiser step's worth of rows, in order; a row's slot is its index in here.
struct GlobalBatch {
  int64_t step = 0;   // from 0, over all epochs
  int64_t epoch = 0;  // from 0
  std::vector<int64_t> rows;
  int64_t tokens = 0;
};

// What one forward pass sees.
struct MicroBatch {
  std::vector<int64_t> rows;   // indices into the data
  std::vector<int64_t> slots;  // their slots in the global batch
  int64_t tokens = 0;
};

struct TrainPlanOptions {
  int64_t batch_size = 32;
  double epochs = 3;
  uint64_t seed = 42;
  bool shuffle = true;
};

// Random access to the steps of a run; the order of an epoch is made when it is first asked for.
// Not thread-safe.
class TrainPlan {
 public:
  TrainPlan(std::vector<int64_t> lengths, TrainPlanOptions options);
  int64_t steps() const { return steps_; }
  int64_t steps_per_epoch() const { return steps_per_epoch_; }
  int64_t rows() const { return int64_t(lengths_.size()); }
  // Rows that the steps before `step` have seen.
  int64_t samples_before(int64_t step) const;
  GlobalBatch batch(int64_t step);
  const std::vector<int64_t>& lengths() const { return lengths_; }

 private:
  std::vector<int64_t> lengths_;
  TrainPlanOptions options_;
  int64_t steps_per_epoch_ = 0;
  int64_t steps_ = 0;
  int64_t order_epoch_ = -1;
  std::vector<int64_t> order_;
};

// Divides a global batch among `world` devices by cost (tokens): longest row first, each to the
// device with the least so far. Then each share is cut into micro-batches in slot order. A share
// may be empty. result[device] is that device's micro-batches. With `speeds` (one a device, in any
// unit) tokens are dealt so that all would be done at the same time.
std::vector<std::vector<MicroBatch>> deal(const GlobalBatch& batch,
                                          const std::vector<int64_t>& lengths, int64_t world,
                                          MicroBatchLimits limits,
                                          const std::vector<double>& speeds = {});

// Cuts rows 0..n-1 in order: for evaluation and prediction, where the cut must not know the
// devices.
std::vector<MicroBatch> cut(const std::vector<int64_t>& lengths, MicroBatchLimits limits);

}  // namespace yoke
