// The buffers of a module (running statistics, counters, whatever it writes in forward) during a
// training step that many copies of it compute, and that may fail.
//
//   buffers.begin(modules);             // modules[0] is the caller's
//   buffers.load(module);               // before a shard: the state before the step
//   buffers.take(module, shard, norms); // after it
//   buffers.commit() or buffers.roll_back();
//
// After commit() all copies hold: for a batch normalisation the running statistics moved once, by
// the statistics of all rows of the step (counts, means and squared deviations merged in double, in
// shard order); any other buffer as the first shard with rows left it. load() and take() may be
// called from several threads, for different modules.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "yoke/parallel/replica_context.h"

namespace yoke {

class StepBuffers {
 public:
  void begin(std::vector<std::shared_ptr<torch::nn::Module>> modules, size_t shards,
             size_t first_shard);
  void load(torch::nn::Module& module) const;
  void take(torch::nn::Module& module, size_t shard, std::vector<NormStatistics> norms);
  void commit();
  void roll_back();  // does nothing when no step is under way

 private:
  using Values = std::vector<std::pair<std::string, at::Tensor>>;
  static void write(const Values& values, torch::nn::Module& module);
  void move_running_statistics();
  struct Named {
    std::string running_mean, running_var;
    NormStatistics statistics;
  };

  std::vector<std::shared_ptr<torch::nn::Module>> modules_;
  size_t first_shard_ = 0;
  Values before_;                          // copies on the CPU
  Values after_;                           // of the first shard
  std::vector<std::vector<Named>> norms_;  // by shard
};

}  // namespace yoke
