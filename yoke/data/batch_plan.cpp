#include "yoke/data/batch_plan.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "yoke/core/error.h"
#include "yoke/core/random.h"

namespace yoke {
namespace {

// Appends rows (with their slots) to micro-batches in order, opening a new one at a limit.
class Cutter {
 public:
  explicit Cutter(MicroBatchLimits limits) : limits_(limits) {}
  void add(int64_t row, int64_t slot, int64_t length) {
    const bool full = !parts_.empty() &&
                      ((limits_.rows > 0 && int64_t(parts_.back().rows.size()) >= limits_.rows) ||
                       (limits_.tokens > 0 && parts_.back().tokens + length > limits_.tokens));
    if (parts_.empty() || full) parts_.emplace_back();
    parts_.back().rows.push_back(row);
    parts_.back().slots.push_back(slot);
    parts_.back().tokens += length;
  }
  std::vector<MicroBatch> take() { return std::move(parts_); }

 private:
  MicroBatchLimits limits_;
  std::vector<MicroBatch> parts_;
};

}  // namespace

TrainPlan::TrainPlan(std::vector<int64_t> lengths, TrainPlanOptions options)
    : lengths_(std::move(lengths)), options_(options) {
  if (lengths_.empty()) throw Error("data.plan", "there are no rows to train on");
  if (options_.batch_size < 1)
    throw Error("data.plan", "the batch size is " + std::to_string(options_.batch_size),
                "at least 1");
  if (!(options_.epochs > 0) || !std::isfinite(options_.epochs))
    throw Error("data.plan", "the number of epochs must be above 0");
  steps_per_epoch_ = (rows() + options_.batch_size - 1) / options_.batch_size;
  steps_ = std::max<int64_t>(1, int64_t(std::ceil(options_.epochs * double(steps_per_epoch_))));
}

int64_t TrainPlan::samples_before(int64_t step) const {
  const int64_t epoch = step / steps_per_epoch_;
  return epoch * rows() + std::min((step % steps_per_epoch_) * options_.batch_size, rows());
}

GlobalBatch TrainPlan::batch(int64_t step) {
  GlobalBatch batch{.step = step, .epoch = step / steps_per_epoch_};
  if (batch.epoch != order_epoch_) {
    if (options_.shuffle) {
      order_ = shuffled_order(rows(), options_.seed, uint64_t(batch.epoch));
    } else {
      order_.resize(lengths_.size());
      std::iota(order_.begin(), order_.end(), int64_t{0});
    }
    order_epoch_ = batch.epoch;
  }
  const int64_t begin = (step % steps_per_epoch_) * options_.batch_size;
  const int64_t end = std::min(begin + options_.batch_size, rows());
  batch.rows.assign(order_.begin() + begin, order_.begin() + end);
  for (int64_t row : batch.rows) batch.tokens += lengths_[size_t(row)];
  return batch;
}

std::vector<std::vector<MicroBatch>> deal(const GlobalBatch& batch,
                                          const std::vector<int64_t>& lengths, int64_t world,
                                          MicroBatchLimits limits,
                                          const std::vector<double>& speeds) {
  std::vector<int64_t> slots(batch.rows.size());
  std::iota(slots.begin(), slots.end(), int64_t{0});
  auto length = [&](int64_t slot) { return lengths[size_t(batch.rows[size_t(slot)])]; };

  std::vector<std::vector<int64_t>> shares(size_t(world), std::vector<int64_t>{});
  if (world == 1) {
    shares[0] = std::move(slots);
  } else {
    std::stable_sort(slots.begin(), slots.end(),
                     [&](int64_t a, int64_t b) { return length(a) > length(b); });
    std::vector<int64_t> load(size_t(world), 0);
    const auto ready = [&](size_t device, int64_t tokens) {
      const auto total = double(load[device] + tokens);
      return speeds.empty() ? total : total / speeds[device];
    };
    for (int64_t slot : slots) {
      const int64_t tokens = std::max<int64_t>(length(slot), 1);
      size_t best = 0;
      for (size_t device = 1; device < load.size(); ++device)
        if (ready(device, tokens) < ready(best, tokens)) best = device;
      shares[best].push_back(slot);
      load[best] += tokens;
    }
  }
  std::vector<std::vector<MicroBatch>> result;
  for (auto& share : shares) {
    std::sort(share.begin(), share.end());
    Cutter cutter(limits);
    for (int64_t slot : share) cutter.add(batch.rows[size_t(slot)], slot, length(slot));
    result.push_back(cutter.take());
  }
  return result;
}

std::vector<MicroBatch> cut(const std::vector<int64_t>& lengths, MicroBatchLimits limits) {
  Cutter cutter(limits);
  for (size_t row = 0; row < lengths.size(); ++row)
    cutter.add(int64_t(row), int64_t(row), lengths[row]);
  return cutter.take();
}

}  // namespace yoke
