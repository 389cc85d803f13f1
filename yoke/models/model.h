// What the trainer knows of a model: packed rows in, logits out, a loss a target.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "yoke/core/json.h"
#include "yoke/data/packed_batch.h"
#include "yoke/models/run_context.h"

namespace yoke {

// How a head is trained, as transformers decides it. The targets of the first two are rows, those
// of the last are tokens.
enum class ProblemType { single_label_classification, regression, token_classification };

// Which names of a checkpoint belong to the body, which to the head (yoke/checkpoint/load_state.h).
struct ModelNames {
  std::string base_prefix;        // "bert.": present or absent in a file
  std::vector<std::string> head;  // globs of the model's own head
};

class Model : public torch::nn::Module {
 public:
  // Logits of a packed batch on the module's device: (rows, num_labels), or where tokens are the
  // targets (T, num_labels).
  virtual at::Tensor forward(const PackedBatch& batch, const RunContext& context) = 0;

  // One float a row or token: cross entropy with int64 labels, 0 where the label is -100 (no
  // target); for a regression the squared error with float labels.
  virtual at::Tensor target_losses(const at::Tensor& logits, const at::Tensor& labels) const = 0;

  // transformers' name of the class, "BertForSequenceClassification": what config.json says.
  virtual std::string architecture() const = 0;
  virtual ModelNames names() const = 0;
  virtual ProblemType problem_type() const = 0;
  virtual int64_t num_labels() const = 0;
  virtual int64_t vocab_size() const = 0;
  virtual int64_t max_positions() const = 0;
  virtual double initializer_range() const = 0;
  // Rough bytes of activations that training keeps for one token.
  virtual int64_t activation_bytes_per_token() const = 0;
};

// A model for the task as config.json describes it, its parameters uninitialised. `num_labels` and
// `problem_type` decide the head. Throws Error that lists the known architectures.
std::shared_ptr<Model> make_model(const Json& config, const std::string& task, int64_t num_labels,
                                  ProblemType problem_type);

// The task of the architecture that config.json names; empty where it names none that is known.
std::string task_of(const Json& config);

// Values of model_type that make_model knows.
std::vector<std::string> known_model_types();

}  // namespace yoke
