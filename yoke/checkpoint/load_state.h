// Fills a model with the tensors of a file: the one place that decides which name means what and
// which names may differ (docs/design.md, "Files").
//
//   LoadRules rules{.base_prefix = "bert.", .own_head = {"classifier.*"}};
//   const LoadReport report = load_state(read_weights(folder), named_tensors, rules, folder.name);
//
// Nothing is copied unless everything fits. Targets may be on any device and of another floating
// type than the file. Two threads may fill different models.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <utility>
#include <vector>

#include "yoke/checkpoint/state_dict.h"

namespace yoke {

// Names are globs: "*" stands for any text. They are compared with a file's names without wrapper
// prefixes, with and without base_prefix.
struct LoadRules {
  // "bert.": what the model's body is called inside the model; a file may have it or not.
  std::string base_prefix;
  // The model's own head, "classifier.*".
  std::vector<std::string> own_head;
  // Heads of other tasks: left out with one notice where the model has no such tensor.
  std::vector<std::string> other_heads = {
      "cls.*",    "lm_head.*", "qa_outputs.*",  "classifier.*",    "score.*",
      "pooler.*", "lm_loss.*", "logits_proj.*", "*_predictions.*", "vocab_*"};
  // Neither asked for nor missed.
  std::vector<std::string> ignorable = {"*position_ids", "n_averaged"};
  // Parts of the body that not every pretraining has; each wholly there or wholly absent. Absent
  // ones are treated as an absent head is: new for training, an error otherwise.
  std::vector<std::string> optional_parts = {"*pooler.*"};
  // Training: a head that is wholly absent is new, the caller draws it.
  bool head_may_be_missing = false;
  // Tensors of the head that are absent or of another shape are new too.
  bool new_head = false;
  // How the user asks for new_head, for hints; empty: not offered.
  std::string new_head_option;
};

struct LoadReport {
  std::vector<std::string>
      new_tensors;                    // targets that the file does not fill: the caller's to draw
  std::vector<std::string> left_out;  // the file's tensors of other heads
  std::vector<std::string> renamed;   // in words, one for each kind: "\"module.\" removed"
};

using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;

// `source_name` stands for the file in messages. Throws one Error that lists all that is missing,
// unexpected or of another shape, by module.
LoadReport load_state(const StateDict& file, const NamedTensors& targets, const LoadRules& rules,
                      const std::string& source_name);

// Whether the file has a tensor of the head, under any spelling of its name.
bool has_head(const StateDict& file, const LoadRules& rules);

}  // namespace yoke
