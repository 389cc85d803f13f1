// A yoke::Trainer that plays: it computes nothing and reports what the model's name asks for, so
// that the program around it can be tested without LibTorch. Names:
//
//   plays        three steps, or as many as --max-train-rows says; --data files have 5 rows
//   regression   as plays, with one value instead of labels
//   tokens       as plays, with a label for each word, the last one cut off
//   waits        steps of 20 ms until stopped
//   late         ignores the first stop() calls of 0.3 s, as a trainer that is still loading
//   deaf         never stops
//   fails, c10, memory, thread      throws yoke::Error, a LibTorch-like error, bad_alloc; throws in
//                                   a thread of its own
#include <atomic>
#include <chrono>
#include <cmath>
#include <limits>
#include <new>
#include <stdexcept>
#include <thread>

#include "yoke/core/error.h"
#include "yoke/core/log.h"
#include "yoke/train/trainer.h"

namespace yoke {

struct Trainer::State {
  TrainerOptions options;
  std::atomic<bool> stopped{false};

  void emit(const Event& event) const {
    if (options.on_event) options.on_event(event);
  }
  void progress(Progress::Phase phase, int64_t done, int64_t total, int64_t rows) const {
    if (options.on_progress) options.on_progress({phase, done, total, rows});
  }
  bool regression() const { return options.model == "regression"; }
  bool of_tokens() const { return options.model == "tokens"; }

  void fail_if_asked() const {
    if (options.model == "fails")
      throw Error("checkpoint.load", "net: tensor \"fc.weight\"\nis (2, 3)\x1b[31m, not (4, 3)",
                  ".new_head = true");
    if (options.model == "c10")
      throw std::runtime_error(
          "mat1 and mat2 shapes cannot be multiplied (1x2 and 3x4)\nException raised from meta at "
          "../aten/src/x.cpp:1 (most recent call first):\nframe #0: c10::Error::Error + 0x96\n");
    if (options.model == "memory") throw std::bad_alloc();
    if (options.model == "thread")
      std::thread([] { throw std::runtime_error("lost\nframe #0: somewhere"); }).join();
  }

  std::vector<Prediction> predict(int64_t rows) const {
    fail_if_asked();
    log_info("1 device: cpu");
    std::vector<Prediction> all;
    for (int64_t row = 0; row < rows; ++row) {
      progress(Progress::Phase::predict, row, rows, row);
      PredictEvent e;
      e.row = row;
      e.regression = regression();
      e.prediction.logits =
          regression() ? std::vector<float>{0.1f} : std::vector<float>{0.1f, 2.5f};
      e.prediction.score = regression() ? double(0.1f) : 0.1 + 0.2;
      e.of_tokens = of_tokens();
      if (of_tokens())
        e.prediction = {.tokens = {{"a\tb", "B-X", 0.1 + 0.2}, {"\"c\",", "O", 0.5}, {"d", {}, 0}}};
      else if (!e.regression)
        e.prediction.label = row == 1 ? "bad, \"very\"\tbad\n\xff" : "good";
      emit(e);
      all.push_back(e.prediction);
    }
    log_info("all rows predicted");
    return all;
  }
};

Trainer::Trainer(TrainerOptions options) : state_(new State{std::move(options)}) {}
Trainer::~Trainer() = default;

TrainResult Trainer::train(const std::string&, const std::string& eval_file) {
  State& s = *state_;
  s.fail_if_asked();
  s.stopped = false;
  const auto start = std::chrono::steady_clock::now();
  log_info("1 device: cpu");
  log_warning("a row was shortened");
  const bool waits =
      s.options.model == "waits" || s.options.model == "late" || s.options.model == "deaf";
  const int64_t steps = waits                          ? 1'000'000
                        : s.options.max_train_rows > 0 ? s.options.max_train_rows
                                                       : 3;
  s.emit(StartEvent{{"cpu"}, s.options.model, 1000, 900, 96, steps, {"classifier.weight"}});
  TrainResult result;
  while (result.steps < steps) {
    if (waits) std::this_thread::sleep_for(std::chrono::milliseconds(20));
    const auto age = std::chrono::steady_clock::now() - start;
    if (s.options.model == "late" && age < std::chrono::milliseconds(300)) s.stopped = false;
    if (s.stopped && s.options.model != "deaf") break;
    ++result.steps;
    s.progress(Progress::Phase::train, result.steps, steps, 32 * result.steps);
    StepEvent e;
    e.step = result.steps;
    e.epoch = double(result.steps) / 3;
    e.loss = 0.1 + 0.2;
    e.learning_rate = 5e-5;
    e.grad_norm = result.steps == 2 ? std::numeric_limits<double>::quiet_NaN() : 1.5;
    e.rows = 32;
    e.tokens = 423;
    e.total_steps = steps;
    s.emit(e);
  }
  if (!eval_file.empty()) evaluate(eval_file);
  s.emit(SavedEvent{s.options.output});
  result.loss = 0.3;
  result.seconds = 65;
  result.path = s.options.output;
  result.stopped = result.steps < steps;
  return result;
}

Metrics Trainer::evaluate(const std::string&) {
  state_->fail_if_asked();
  EvaluateEvent e;
  e.loss = 0.25;
  e.rows = 872;
  e.has_accuracy = !state_->regression();
  (e.has_accuracy ? e.accuracy : e.mse) = 0.875;
  if (state_->of_tokens()) e.entities = {0.5, 0.25, 1.0 / 3};
  state_->progress(Progress::Phase::evaluate, 872, 872, 872);
  state_->emit(e);
  return {{{"loss", 0.25}, {e.has_accuracy ? "accuracy" : "mse", 0.875}}, 872};
}

std::vector<Prediction> Trainer::predict(const std::string&) {
  return state_->predict(state_->options.batch_size == 1 ? 100'000 : 5);
}
std::vector<Prediction> Trainer::predict(const std::vector<std::string>& texts) {
  return state_->predict(int64_t(texts.size()));
}
std::vector<Prediction> Trainer::predict(const std::vector<std::string>& texts,
                                         const std::vector<std::string>& text_pairs) {
  if (texts.size() != text_pairs.size()) throw Error("predict", "sizes differ");
  return state_->predict(int64_t(texts.size()));
}

std::string Trainer::save(const std::string& folder, bool) { return folder; }
void Trainer::stop() { state_->stopped = true; }
std::vector<std::string> Trainer::labels() const { return {"bad", "good"}; }

}  // namespace yoke
