// Rows through a model without training: scores and predictions, each row once, in input order,
// with the same bits for any devices.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "yoke/data/batch_plan.h"
#include "yoke/parallel/replica_set.h"
#include "yoke/train/events.h"
#include "yoke/train/text_model.h"
#include "yoke/train/text_rows.h"

namespace yoke {

class Evaluation {
 public:
  // `limits` cut the micro-batches, before devices are looked at. All arguments outlive this.
  Evaluation(ReplicaSet& replicas, const TextModel& text, MicroBatchLimits limits,
             std::function<void(const Progress&)> on_progress);

  // Scores of labelled rows; `step` is only passed on to the event.
  EvaluateEvent evaluate(const TextRows& rows, int64_t step);
  // `on_row` is called for every row in order as soon as it is known.
  std::vector<Prediction> predict(const TextRows& rows,
                                  const std::function<void(const PredictEvent&)>& on_row);

 private:
  // The class with the largest logit, the first of equals, and its softmax.
  struct Choice {
    int64_t label;
    double score;
  };
  static Choice choose(const std::vector<float>& logits);
  Prediction predict_tokens(const TextRows& rows, int64_t row,
                            const std::vector<float>& logits) const;

  // Called with every row's logits, in order, on the caller's thread: (num_labels), or where tokens
  // are the targets (tokens of the row, num_labels).
  using OnRow = std::function<void(int64_t row, std::vector<float> logits)>;
  void forward(const TextRows& rows, Progress::Phase phase, const OnRow& on_row);

  ReplicaSet& replicas_;
  const TextModel& text_;
  const MicroBatchLimits limits_;
  const std::function<void(const Progress&)> on_progress_;
};

}  // namespace yoke
