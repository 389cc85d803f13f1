#include "yoke/train/evaluation.h"

#include <algorithm>
#include <atomic>
#include <optional>
#include <utility>

#include "yoke/core/log.h"
#include "yoke/data/ignored_label.h"
#include "yoke/device/devices.h"
#include "yoke/train/entities.h"
#include "yoke/train/failure.h"
#include "yoke/train/metrics.h"

namespace yoke {
namespace {

// The logits of one token.
std::vector<float> part(const std::vector<float>& logits, size_t token, size_t classes) {
  const auto from = logits.begin() + std::ptrdiff_t(token * classes);
  return {from, from + std::ptrdiff_t(classes)};
}

}  // namespace

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
        const int64_t size = out.size(1) * (text_.labels_tokens() ? rows.lengths[size_t(row)] : 1);
        on_row(row, std::vector<float>(from, from + size));
        from += size;
      }
    }
    const int64_t done = micros[end - 1].rows.back() + 1;
    if (on_progress_) on_progress_({phase, done, rows.size(), done});
  }
}

EvaluateEvent Evaluation::evaluate(const TextRows& rows, int64_t step) {
  const bool regression = text_.model()->problem_type() == ProblemType::regression;
  Scores scores;
  const auto& names = text_.labels().names();
  std::optional<EntityScores> entities;
  if (text_.labels_tokens() && EntityScores::fit(names)) entities.emplace(names);
  forward(rows, Progress::Phase::evaluate, [&](int64_t row, const std::vector<float>& logits) {
    if (text_.labels_tokens()) {
      std::vector<int64_t> truth, predicted;
      const auto& labels = rows.token_labels[size_t(row)];
      for (size_t token = 0; token < labels.size(); ++token) {
        if (labels[token] == ignored_label) continue;
        const auto of_token = part(logits, token, names.size());
        scores.add_class(of_token, labels[token]);
        truth.push_back(labels[token]);
        predicted.push_back(choose(of_token).label);
      }
      if (entities) entities->add_row(truth, predicted);
    } else if (regression) {
      scores.add_value(logits[0], rows.values[size_t(row)]);
    } else {
      scores.add_class(logits, rows.class_labels[size_t(row)]);
    }
  });
  EvaluateEvent event;
  event.step = step;
  event.rows = rows.size();
  event.loss = scores.loss();
  event.has_accuracy = !regression;
  event.accuracy = scores.accuracy();
  event.mse = regression ? scores.loss() : 0;
  if (entities) event.entities = {entities->precision(), entities->recall(), entities->f1()};
  if (scores.targets() == 0) log_warning(rows.file + ": no token has a label, so all scores are 0");
  return event;
}

Evaluation::Choice Evaluation::choose(const std::vector<float>& logits) {
  const auto best = std::max_element(logits.begin(), logits.end()) - logits.begin();
  return {best, softmax(logits)[size_t(best)]};
}

Prediction Evaluation::predict_tokens(const TextRows& rows, int64_t row,
                                      const std::vector<float>& logits) const {
  Prediction prediction;
  const auto& words = rows.words[size_t(row)];
  for (size_t word = 0; word < words.size(); ++word) {
    auto& token = prediction.tokens.emplace_back();
    token.token = words[word];
    const int32_t at = rows.first_pieces[size_t(row)][word];
    if (at < 0) continue;
    const auto best = choose(part(logits, size_t(at), size_t(text_.labels().size())));
    token.label = text_.labels().name(best.label);
    token.score = best.score;
  }
  return prediction;
}

std::vector<Prediction> Evaluation::predict(
    const TextRows& rows, const std::function<void(const PredictEvent&)>& on_row) {
  const bool regression = text_.model()->problem_type() == ProblemType::regression;
  std::vector<Prediction> predictions;
  forward(rows, Progress::Phase::predict, [&](int64_t row, std::vector<float> logits) {
    Prediction p;
    if (text_.labels_tokens()) {
      p = predict_tokens(rows, row, logits);
    } else if (regression) {
      p.score = double(logits[0]);
    } else {
      const auto best = choose(logits);
      p.label = text_.labels().name(best.label);
      p.score = best.score;
    }
    if (!text_.labels_tokens()) p.logits = std::move(logits);
    predictions.push_back(p);
    on_row(PredictEvent{row, std::move(p), regression, text_.labels_tokens()});
  });
  return predictions;
}

}  // namespace yoke
