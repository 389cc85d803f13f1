#include "yoke/train/evaluation.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "yoke/device/devices.h"
#include "yoke/train/failure.h"
#include "yoke/train/metrics.h"

namespace yoke {

Evaluation::Evaluation(ReplicaSet& replicas, const TextModel& text, MicroBatchLimits limits,
                       std::function<void(const Progress&)> on_progress)
    : replicas_(replicas), text_(text), limits_(limits), on_progress_(std::move(on_progress)) {}

void Evaluation::forward(const TextRows& rows, Progress::Phase phase, const OnRow& on_row) {
  const auto micros = cut(rows.lengths, limits_);
  // In stretches, so that results and progress reach the caller meanwhile.
  constexpr size_t stretch = 64;
  for (size_t begin = 0; begin < micros.size(); begin += stretch) {
    const size_t end = std::min(begin + stretch, micros.size());
    std::vector<at::Tensor> outputs(end - begin);
    std::atomic<size_t> next{begin};
    replicas_.run_lanes([&](const Lane& lane) {
      auto& model = static_cast<Model&>(*lane.module);
      for (size_t m = next++; m < end; m = next++) try {
          outputs[m - begin] =
              model.forward(pack_rows(rows, micros[m]).to(lane.device), {}).cpu().contiguous();
        } catch (...) {
          rethrow_at("train.forward",
                     device_name(lane.device) + ", " + describe_rows(rows, micros[m].rows));
        }
    });
    for (size_t m = begin; m < end; ++m) {
      const auto& out = outputs[m - begin];
      const float* from = out.const_data_ptr<float>();
      for (int64_t row : micros[m].rows) {
        on_row(row, std::vector<float>(from, from + out.size(1)));
        from += out.size(1);
      }
    }
    const int64_t done = micros[end - 1].rows.back() + 1;
    if (on_progress_) on_progress_({phase, done, rows.size(), done});
  }
}

EvaluateEvent Evaluation::evaluate(const TextRows& rows, int64_t step) {
  const bool regression = text_.model()->problem_type() == ProblemType::regression;
  Scores scores;
  forward(rows, Progress::Phase::evaluate, [&](int64_t row, const std::vector<float>& logits) {
    if (regression) {
      scores.add_value(logits[0], rows.values[size_t(row)]);
    } else {
      scores.add_class(logits, rows.class_labels[size_t(row)]);
    }
  });
  EvaluateEvent event;
  event.step = step;
  event.rows = scores.rows();
  event.loss = scores.loss();
  event.has_accuracy = !regression;
  event.accuracy = scores.accuracy();
  event.mse = regression ? scores.loss() : 0;
  return event;
}

std::vector<Prediction> Evaluation::predict(
    const TextRows& rows, const std::function<void(const PredictEvent&)>& on_row) {
  const bool regression = text_.model()->problem_type() == ProblemType::regression;
  std::vector<Prediction> predictions;
  forward(rows, Progress::Phase::predict, [&](int64_t row, std::vector<float> logits) {
    Prediction p;
    if (regression) {
      p.score = double(logits[0]);
    } else {
      const auto best = std::max_element(logits.begin(), logits.end()) - logits.begin();
      p.label = text_.labels().name(best);
      p.score = softmax(logits)[size_t(best)];
    }
    p.logits = std::move(logits);
    predictions.push_back(p);
    on_row(PredictEvent{row, std::move(p), regression});
  });
  return predictions;
}

}  // namespace yoke
