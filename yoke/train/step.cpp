#include "yoke/train/step.h"

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "yoke/core/error.h"
#include "yoke/core/failpoint.h"
#include "yoke/device/devices.h"
#include "yoke/parallel/backward.h"
#include "yoke/train/failure.h"

namespace yoke {
namespace {

class Step {
 public:
  Step(ReplicaSet& replicas, const StepInput& input, const AdamWOptions& optimizer,
       const StepWork& work)
      : replicas_(replicas),
        input_(input),
        optimizer_(optimizer),
        work_(work),
        losses_(input.micro_batches.size(), 0.0),
        seconds_(input.exact ? 0 : size_t(replicas.size()), 0.0) {}

  StepOutput run() {
    try {
      if (input_.exact) {
        replicas_.run_shards(
            input_.micro_batches,
            [this](const Lane& lane, int shard) {
              compute({lane.device, *lane.module}, size_t(shard), 0, 1, nullptr);
            },
            [this](Replica& replica) { apply(replica); });
      } else {
        replicas_.run_step(input_.micro_batches, [this](Replica& replica) { fast(replica); });
      }
    } catch (...) {
      replicas_.buffers().roll_back();
      throw;
    }
    replicas_.buffers().commit();
    StepOutput output{.grad_norm = norm_, .seconds = std::move(seconds_)};
    for (double loss : losses_) output.loss_sum += loss;
    return output;
  }

 private:
  std::string at_step() const { return "step " + std::to_string(input_.step + 1); }

  void fast(Replica& replica) {
    auto& reducer = replica.reducer();
    try {
      c10::AutoGradMode with_gradients(true);
      reducer.begin_step();
      const auto start = std::chrono::steady_clock::now();
      compute({replica.device(), replica.module()}, size_t(replica.rank()), replica.rank(),
              replica.threads(), &reducer);
      seconds_[size_t(replica.rank())] =
          std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
      try {
        failpoint("step.reduce", replica.rank());
        reducer.finish();
      } catch (...) {
        rethrow_at("train.step", at_step() + " on " + device_name(replica.device()));
      }
    } catch (...) {
      reducer.cancel();
      throw;
    }
    apply(replica);
  }

  // Forward and backward of one shard.
  void compute(const Worker& worker, size_t shard, int rank, int threads, Reducer* reducer) {
    const size_t count = input_.micro_batches[shard];
    std::vector<NormStatistics> norms;
    size_t m = 0;
    const auto place = [&] {
      return at_step() + " on " + device_name(worker.device) +
             (m < count ? ", " + work_.rows(int(shard), m) : "");
    };
    try {
      if (count > 0) replicas_.buffers().load(worker.module);
      for (; m < count; ++m) {
        ReplicaContext context{.seed = input_.seed,
                               .step = input_.step,
                               .shard = int64_t(shard),
                               .micro = m,
                               .slots = work_.slots(shard, m),
                               .rank = rank,
                               .exchange = replicas_.moments(),
                               .shares_device = replicas_.shares_device(worker.device)};
        MicroLoss loss;
        {
          const ReplicaContextGuard inside(context);
          failpoint("step.forward", int(shard));
          loss = work_.forward(worker, shard, m);
        }
        if (context.exchange) context.exchange->leave(rank, m, Pass::forward);
        if (!std::isfinite(loss.value))
          throw Error("train.step", place() + ": the loss is " + std::to_string(loss.value),
                      "a smaller learning rate, or look at these rows");
        losses_[shard] += loss.value;
        failpoint("step.backward", int(shard));
        if (reducer) reducer->begin_backward(m + 1 == count);
        if (loss.sum.requires_grad()) backward(loss.sum / std::max(1.0, input_.targets), threads);
        if (context.exchange) context.exchange->leave(rank, m, Pass::backward);
        std::move(context.norms.begin(), context.norms.end(), std::back_inserter(norms));
      }
      if (count > 0) replicas_.buffers().take(worker.module, shard, std::move(norms));
    } catch (...) {
      rethrow_at("train.step", place());
    }
  }

  // Norm, clipping and optimiser on the sums.
  void apply(Replica& replica) {
    try {
      const double norm = replica.gradient_norm();
      if (replica.rank() == 0) norm_ = norm;
      if (!std::isfinite(norm))
        throw Error(
            "train.step",
            at_step() + ": the gradient norm is " + std::to_string(norm) + ", " + work_.rows(-1, 0),
            "a smaller learning rate, or look at these rows");
      failpoint("step.optimizer", replica.rank());
      // As torch.nn.utils.clip_grad_norm_: gradients times max_norm / (norm + 1e-6), at most 1.
      const double divisor =
          input_.max_grad_norm > 0 ? std::max(1.0, (norm + 1e-6) / input_.max_grad_norm) : 1.0;
      adamw_step(replica, optimizer_, input_.learning_rate, divisor);
    } catch (...) {
      rethrow_at("train.step", at_step() + " on " + device_name(replica.device()));
    }
  }

  ReplicaSet& replicas_;
  const StepInput& input_;
  const AdamWOptions& optimizer_;
  const StepWork& work_;
  std::vector<double> losses_;   // by shard
  std::vector<double> seconds_;  // by rank
  double norm_ = 0;
};

}  // namespace

StepOutput run_step(ReplicaSet& replicas, const StepInput& input, const AdamWOptions& optimizer,
                    const StepWork& work) {
  return Step(replicas, input, optimizer, work).run();
}

}  // namespace yoke
