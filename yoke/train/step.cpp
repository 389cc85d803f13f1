#include "yoke/train/step.h"

#include <ATen/TensorOperators.h>

#include <cmath>

#include "yoke/core/error.h"
#include "yoke/train/failure.h"

namespace yoke {
StepOutput run_step(ReplicaSet& replicas, const StepInput& input, const AdamWOptions& optimizer,
                    const std::function<MicroLoss(Replica&, size_t)>& forward,
                    const std::function<std::string(int, size_t)>& rows) {
  std::vector<double> losses(size_t(replicas.size()), 0.0);
  std::vector<double> norms(size_t(replicas.size()), 0.0);
  const std::string at_step = "step " + std::to_string(input.step + 1);

  replicas.run([&](Replica& replica) {
    const size_t rank = size_t(replica.rank());
    size_t micro = 0;
    const auto place = [&] {
      std::string text = at_step + " on " + replica.device().str();
      if (micro < input.micro_batches[rank]) text += ", " + rows(replica.rank(), micro);
      return text;
    };
    try {
      c10::AutoGradMode with_gradients(true);
      auto& reducer = replica.reducer();
      reducer.begin_step();
      for (; micro < input.micro_batches[rank]; ++micro) {
        MicroLoss loss = forward(replica, micro);
        if (!std::isfinite(loss.value))
          throw Error("train.step", place() + ": the loss is " + std::to_string(loss.value),
                      "a smaller learning rate, or look at these rows");
        losses[rank] += loss.value;
        reducer.begin_backward(micro + 1 == input.micro_batches[rank]);
        if (loss.sum.requires_grad()) (loss.sum / input.targets).backward();
      }
      reducer.finish();
      const double norm = replica.gradient_norm();
      norms[rank] = norm;
      if (!std::isfinite(norm))
        throw Error("train.step",
                    at_step + ": the gradient norm is " + std::to_string(norm) + ", " + rows(-1, 0),
                    "a smaller learning rate, or look at these rows");
      // As torch.nn.utils.clip_grad_norm_: gradients times max_norm / (norm + 1e-6), at most 1.
      const double divisor =
          input.max_grad_norm > 0 ? std::max(1.0, (norm + 1e-6) / input.max_grad_norm) : 1.0;
      adamw_step(replica, optimizer, input.learning_rate, divisor);
    } catch (...) {
      rethrow_at("train.step", place());
    }
  });

  StepOutput output;
  for (double loss : losses) output.loss_sum += loss;
  output.grad_norm = norms[0];
  return output;
}

}  // namespace yoke
