// What a checkpoint knows of its run beside weights and moments: trainer_state.json. Two runs with
// the same `identity` take the same steps, so a checkpoint of one continues the other.
#pragma once

#include <cstdint>
#include <string>

#include "yoke/core/json.h"

namespace yoke {

struct RunState {
  static constexpr const char* file_name = "trainer_state.json";

  int64_t step = 0;  // optimiser steps done
  int64_t total_steps = 0;
  int64_t samples = 0;  // rows seen
  double epoch = 0;
  bool finished = false;

  // Sums over targets: of all steps that were reported, and of those since the last report.
  double loss_sum = 0, targets = 0;
  double line_loss_sum = 0, line_targets = 0;
  int64_t line_rows = 0, line_tokens = 0;

  // Options and fingerprints by name; see TrainingRun.
  Json identity = Json::object();
  // Micro-batches made smaller on the way: [{"step", "micro_batch_rows"}].
  Json splits = Json::array();

  std::string to_text() const;
  // Throws Error that names the file.
  static RunState from_file(const std::string& path);
};

// Throws Error that lists everything in which `mine` differs from the run that wrote `saved`.
void check_same_run(const Json& saved, const Json& mine, const std::string& checkpoint);

}  // namespace yoke
