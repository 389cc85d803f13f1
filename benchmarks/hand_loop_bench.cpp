// What the machinery costs on one device: yoke's Trainer beside a training loop written by hand on
// the same packed model, the same rows, weights and dropout.
//
//   YOKE_BENCH_MODEL=FOLDER YOKE_BENCH_TRAIN=FILE build/bin/bench_hand_loop [PAIRS] [--check]
//
// FOLDER: a BERT; FILE: a table with texts and labels. The two take turns step by step in one
// process: the Trainer reports a step, and its callback runs the same step by hand, so whatever
// slows the machine down slows both. The loop is as good as one writes it: gradients set to none,
// one norm, clipping folded into one at::_fused_adamw_; it offers no gradient slots, so the
// operators hand their gradients to autograd. With --check the exit status is 1 when the Trainer's
// steps take more than 1.01 times the loop's (the median of the pairs' ratios).
#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/_foreach_norm.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/full.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "yoke/core/error.h"
#include "yoke/data/batch_plan.h"
#include "yoke/train/schedule.h"
#include "yoke/train/text_model.h"
#include "yoke/train/trainer.h"

namespace {

using Clock = std::chrono::steady_clock;

constexpr int warm_up = 4;          // pairs that are not counted
constexpr double allowed = 1.01;    // 1 % at most
constexpr double tolerance = 1e-5;  // of the two losses of a step, relative

double milliseconds(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double, std::milli>(to - from).count();
}

double quantile(std::vector<double> values, double q) {
  std::sort(values.begin(), values.end());
  const double at = q * double(values.size() - 1);
  const size_t low = size_t(at), high = std::min(low + 1, values.size() - 1);
  return values[low] + (at - double(low)) * (values[high] - values[low]);
}

class HandLoop {
 public:
  explicit HandLoop(const yoke::TrainerOptions& options, const std::string& file)
      : options_(options),
        text_(options_),
        rows_(text_.read(file, yoke::LabelNeed::required, yoke::LoadPurpose::train,
                         options_.max_train_rows)),
        plan_(rows_.lengths,
              {options_.batch_size, options_.epochs, options_.seed, options_.shuffle}),
        schedule_(options_.lr_scheduler, options_.learning_rate, options_.warmup_steps,
                  plan_.steps()) {
    text_.model()->train();
    for (const auto& parameter : text_.model()->parameters()) {
      parameters_.push_back(parameter);
      exp_avg_.push_back(at::zeros_like(parameter));
      exp_avg_sq_.push_back(at::zeros_like(parameter));
      steps_.push_back(at::zeros({}));
    }
  }

  int64_t steps() const { return plan_.steps(); }

  // Rows of step `step`, packed; outside the clock, as the Trainer's loader works ahead.
  yoke::PackedBatch batch(int64_t step) {
    const auto shares = yoke::deal(plan_.batch(step), rows_.lengths, 1, {});
    if (shares.at(0).size() != 1) throw std::runtime_error("a batch is more than a micro-batch");
    return yoke::pack_rows(rows_, shares[0][0]);
  }

  // Returns the loss.
  double step(int64_t step, const yoke::PackedBatch& batch) {
    auto& model = *text_.model();
    for (auto& parameter : parameters_) parameter.mutable_grad().reset();
    const auto loss =
        model.target_losses(model.forward(batch, {options_.seed, step}), batch.labels).mean();
    loss.backward();
    c10::NoGradGuard no_grad;
    used_.assign(5, {});
    for (size_t i = 0; i < parameters_.size(); ++i) {
      if (!parameters_[i].grad().defined()) continue;
      const at::Tensor lists[] = {parameters_[i], parameters_[i].grad(), exp_avg_[i],
                                  exp_avg_sq_[i], steps_[i].add_(1)};
      for (size_t l = 0; l < 5; ++l) used_[l].push_back(lists[l]);
    }
    const double norm = at::stack(at::_foreach_norm(used_[1])).norm().item<double>();
    const double divisor = std::max(1.0, (norm + 1e-6) / options_.max_grad_norm);
    const auto scale =
        divisor == 1 ? std::nullopt : std::optional(at::full({}, divisor, at::kFloat));
    at::_fused_adamw_(used_[0], used_[1], used_[2], used_[3], {}, used_[4], schedule_.at(step), 0.9,
                      0.999, options_.weight_decay, 1e-8, /*amsgrad=*/false, /*maximize=*/false,
                      scale);
    return loss.item<double>();
  }

 private:
  const yoke::TrainerOptions options_;
  yoke::TextModel text_;
  const yoke::TextRows rows_;
  yoke::TrainPlan plan_;
  const yoke::Schedule schedule_;
  std::vector<at::Tensor> parameters_, exp_avg_, exp_avg_sq_, steps_;
  std::vector<std::vector<at::Tensor>> used_;
};

struct Pair {
  double yoke = 0, hand = 0;  // milliseconds
};

std::vector<Pair> measure(const std::string& model, const std::string& file, int64_t pairs) {
  yoke::TrainerOptions options{.model = model, .devices = "cpu"};
  options.batch_size = 32;
  options.max_train_rows = options.batch_size * (warm_up + pairs);
  options.epochs = 1;
  options.max_length = 64;
  options.logging_steps = 1;
  options.micro_batch_tokens = 1 << 16;  // a batch is one micro-batch
  HandLoop hand(options, file);
  const int threads = at::get_num_threads();
  std::vector<Pair> measured;
  Clock::time_point began;
  options.on_event = [&](const yoke::Event& event) {
    const auto* line = std::get_if<yoke::StepEvent>(&event);
    if (!line) return;
    Pair pair{.yoke = milliseconds(began, Clock::now())};
    if (at::get_num_threads() != threads) throw std::runtime_error("the thread count has changed");
    const auto batch = hand.batch(line->step - 1);
    const auto start = Clock::now();
    const double loss = hand.step(line->step - 1, batch);
    began = Clock::now();
    pair.hand = milliseconds(start, began);
    if (!(std::abs(loss - line->loss) <= tolerance * std::abs(loss)))
      throw std::runtime_error("step " + std::to_string(line->step) + ": the losses are " +
                               std::to_string(loss) + " and " + std::to_string(line->loss));
    if (line->step > warm_up) measured.push_back(pair);
  };
  yoke::Trainer(options).train(file);
  return measured;
}

int run(int64_t pairs, bool check) {
  const char* model = std::getenv("YOKE_BENCH_MODEL");
  const char* file = std::getenv("YOKE_BENCH_TRAIN");
  if (!model || !file) throw std::runtime_error("set YOKE_BENCH_MODEL and YOKE_BENCH_TRAIN");
  const auto measured = measure(model, file, pairs);
  if (measured.empty()) throw std::runtime_error("the file has too few rows");
  std::vector<double> yoke, hand, ratio;
  for (const auto& pair : measured) {
    yoke.push_back(pair.yoke);
    hand.push_back(pair.hand);
    ratio.push_back(pair.yoke / pair.hand);
  }
  std::printf("%zu pairs of steps, batch 32, %d threads; the same losses within %.0e\n\n",
              measured.size(), at::get_num_threads(), tolerance);
  std::printf("| | lower quartile | median | upper quartile |\n|---|--:|--:|--:|\n");
  const auto row = [](const char* name, const std::vector<double>& values, int digits) {
    std::printf("| %s | %.*f | %.*f | %.*f |\n", name, digits, quantile(values, 0.25), digits,
                quantile(values, 0.5), digits, quantile(values, 0.75));
  };
  row("yoke's Trainer, ms a step", yoke, 1);
  row("loop by hand, ms a step", hand, 1);
  row("yoke / by hand, of each pair", ratio, 3);
  return check && quantile(ratio, 0.5) > allowed;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    int64_t pairs = 60;
    bool check = false;
    for (int i = 1; i < argc; ++i) {
      if (std::string(argv[i]) == "--check")
        check = true;
      else
        pairs = std::max(1, std::atoi(argv[i]));
    }
    return run(pairs, check);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bench_hand_loop: %s\n", error.what());
    return 2;
  }
}
