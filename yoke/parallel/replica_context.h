// What stock layers of a module may ask while a replica computes a micro-batch: which rows these
// are, and who computes beside it. yoke gives the operators behind torch's dropout and batch
// normalisation layers a behaviour of their own in here (stock_dropout.cpp, stock_batch_norm.cpp);
// outside they are PyTorch's, unchanged.
//
//   ReplicaContext context{.seed = 42, .step = 7, .slots = {0, 3, 4}};
//   ReplicaContextGuard guard(context);
//   auto out = net->forward(x);
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "yoke/parallel/moment_exchange.h"

namespace yoke {

// Count, mean and squared deviations of values, by channel.
struct Moments {
  double count = 0;
  std::vector<double> mean;
  std::vector<double> m2;  // sum of squared deviations from the mean

  // Adds those of other values (Chan, Golub, LeVeque 1979).
  void merge(const Moments& other);
};

// Of what one call of a batch normalisation saw on this replica.
struct NormStatistics {
  const void* running_mean = nullptr;  // the layer's buffer in the replica's module (TensorImpl)
  const void* running_var = nullptr;
  Moments moments;
  double momentum = 0;
};

struct ReplicaContext {
  uint64_t seed = 0;
  int64_t step = 0;            // optimiser steps before this one
  int64_t shard = 0;           // logical shard (exact) or rank (fast)
  size_t micro = 0;            // micro-batch of the shard: the moment
  std::vector<int64_t> slots;  // of the micro-batch's rows in the global batch

  int rank = 0;
  std::shared_ptr<MomentExchange> exchange;  // null: nobody computes beside it
  bool shares_device = false;                // several replicas on one accelerator

  int64_t dropout_calls = 0;  // so far in this forward
  size_t norm_calls = 0;
  std::vector<NormStatistics> norms;

  // Of the calling thread; null outside.
  static ReplicaContext* current();
};

class ReplicaContextGuard {
 public:
  explicit ReplicaContextGuard(ReplicaContext& context);
  ~ReplicaContextGuard();
  ReplicaContextGuard(const ReplicaContextGuard&) = delete;
  ReplicaContextGuard& operator=(const ReplicaContextGuard&) = delete;

 private:
  ReplicaContext* const former_;
};

}  // namespace yoke
