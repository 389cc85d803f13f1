// What a run reports while it goes on. `to_json` gives the objects that `--json` prints.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "yoke/core/json.h"

namespace yoke {

struct StartEvent {
  std::vector<std::string> devices;
  std::string model;
  int64_t parameters = 0;
  int64_t trainable = 0;
  int64_t rows = 0;
  int64_t steps = 0;
  std::string mode = "fast";
  int64_t logical_shards = 0;  // exact only
  int64_t resumed_step = 0;    // steps done before, when the run goes on from a checkpoint
  std::vector<std::string> new_tensors;  // drawn anew from the seed, not in the file
};

struct StepEvent {
  int64_t step = 0;          // optimiser steps done, from 1
  double epoch = 0;          // samples seen / rows
  double loss = 0;           // sum of target losses / targets, since the last StepEvent
  double learning_rate = 0;  // the one used
  double grad_norm = 0;      // before clipping, of this step
  int64_t rows = 0;          // since the last StepEvent
  int64_t tokens = 0;
  int64_t total_steps = 0;  // of the run; not in the JSON
};

// Of named entities, over all types.
struct EntityMetrics {
  double precision = 0;
  double recall = 0;
  double f1 = 0;
};

struct EvaluateEvent {
  int64_t step = 0;
  double loss = 0;
  double accuracy = 0;  // classification, of rows or of tokens
  bool has_accuracy = true;
  double mse = 0;  // regression
  int64_t rows = 0;
  // Token classification with labels such as "B-PER".
  std::optional<EntityMetrics> entities = std::nullopt;
};

// What a model says of a word.
struct TokenPrediction {
  std::string token;
  std::optional<std::string> label;  // nothing for a word that truncation cut off
  double score = 0;                  // softmax of the label
};

struct Prediction {
  std::string label;          // empty for regression
  double score = 0;           // softmax of the label; regression: the value
  std::vector<float> logits;  // (num_labels); empty for token classification
  // Token classification: one for each word; the members above are empty then.
  std::vector<TokenPrediction> tokens = {};
};

struct PredictEvent {
  int64_t row = 0;
  Prediction prediction;
  bool regression = false;
  bool of_tokens = false;
};

struct SavedEvent {
  std::string path;
};

// Where a call stands, for a progress bar: after every optimiser step or, in evaluate() and
// predict(), after every batch. Not an Event: it has no JSON, and nothing waits for a device to
// report it.
struct Progress {
  enum class Phase { train, evaluate, predict };
  Phase phase = Phase::train;
  int64_t done = 0;   // steps of training, or rows
  int64_t total = 0;  // in the same unit
  int64_t rows = 0;   // so far; in training over all epochs
};

using Event = std::variant<StartEvent, StepEvent, EvaluateEvent, PredictEvent, SavedEvent>;

Json to_json(const Event& event);

}  // namespace yoke
