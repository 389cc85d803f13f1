// BERT (Devlin et al. 2018) on packed rows. Modules and parameters are named as in transformers'
// modeling_bert.py, so a checkpoint's keys are this module's named_parameters().
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "yoke/models/layers.h"
#include "yoke/models/model.h"
#include "yoke/models/ops/dropout.h"

namespace yoke {

struct BertConfig {
  int64_t vocab_size = 30522;
  int64_t hidden_size = 768;
  int64_t num_hidden_layers = 12;
  int64_t num_attention_heads = 12;
  int64_t intermediate_size = 3072;
  std::string hidden_act = "gelu";
  double hidden_dropout_prob = 0.1;
  double attention_probs_dropout_prob = 0.1;
  double classifier_dropout = 0.1;  // hidden_dropout_prob where config.json has none
  int64_t max_position_embeddings = 512;
  int64_t type_vocab_size = 2;
  int64_t pad_token_id = 0;  // its embedding gets no gradient; -1: none
  double initializer_range = 0.02;
  double layer_norm_eps = 1e-12;

  // Reads config.json; throws Error for values that no BERT can have.
  static BertConfig from_json(const Json& config);
};

struct BertEmbeddings : torch::nn::Module {
  explicit BertEmbeddings(const BertConfig& config);
  at::Tensor forward(const PackedBatch& batch, const DropoutSite& dropout) const;
  std::shared_ptr<Embedding> word_embeddings, position_embeddings, token_type_embeddings;
  std::shared_ptr<LayerNorm> norm;
};

struct BertLayer : torch::nn::Module {
  // `index` numbers the layer's dropout sites.
  BertLayer(const BertConfig& config, int64_t index);
  at::Tensor forward(const at::Tensor& hidden, const PackedBatch& batch,
                     const RunContext& context) const;

 private:
  DropoutSite site(double p, int64_t which, const RunContext& context) const;
  const int64_t index_, heads_;
  const double hidden_dropout_, attention_dropout_;
  const Activation activation_;
  std::shared_ptr<Linear> query_, key_, value_, attention_output_, intermediate_, output_;
  std::shared_ptr<LayerNorm> attention_norm_, output_norm_;
};

// The body, with a pooler or, for heads over tokens, without.
struct BertModel : torch::nn::Module {
  explicit BertModel(const BertConfig& config, bool with_pooler = true);
  // (T, hidden): the last layer for every token.
  at::Tensor forward(const PackedBatch& batch, const RunContext& context) const;
  // (rows, hidden): tanh of a linear map of each row's first token.
  at::Tensor pooled(const at::Tensor& hidden, const PackedBatch& batch) const;
  std::shared_ptr<BertEmbeddings> embeddings;
  std::vector<std::shared_ptr<BertLayer>> layers;
  std::shared_ptr<Linear> pooler;  // may be null

 private:
  const double dropout_;
};

// The body and a classifier over something of it.
class BertWithClassifier : public Model {
 public:
  BertWithClassifier(const BertConfig& config, int64_t num_labels, bool with_pooler);

  ModelNames names() const override;
  int64_t num_labels() const override { return num_labels_; }
  int64_t vocab_size() const override { return config_.vocab_size; }
  int64_t max_positions() const override { return config_.max_position_embeddings; }
  double initializer_range() const override { return config_.initializer_range; }
  int64_t activation_bytes_per_token() const override;

  std::shared_ptr<BertModel> bert;
  std::shared_ptr<Linear> classifier;

 protected:
  // features (N, hidden) of tokens with these slots and positions -> (N, num_labels), after
  // dropout.
  at::Tensor classify(const at::Tensor& features, const at::Tensor& slots,
                      const at::Tensor& positions, const RunContext& context) const;

 private:
  const BertConfig config_;
  const int64_t num_labels_;
};

class BertForSequenceClassification : public BertWithClassifier {
 public:
  BertForSequenceClassification(const BertConfig& config, int64_t num_labels, ProblemType type);

  at::Tensor forward(const PackedBatch& batch, const RunContext& context) override;
  at::Tensor target_losses(const at::Tensor& logits, const at::Tensor& labels) const override;
  std::string architecture() const override { return "BertForSequenceClassification"; }
  ProblemType problem_type() const override { return type_; }

 private:
  const ProblemType type_;
};

class BertForTokenClassification : public BertWithClassifier {
 public:
  BertForTokenClassification(const BertConfig& config, int64_t num_labels);

  at::Tensor forward(const PackedBatch& batch, const RunContext& context) override;
  at::Tensor target_losses(const at::Tensor& logits, const at::Tensor& labels) const override;
  std::string architecture() const override { return "BertForTokenClassification"; }
  ProblemType problem_type() const override { return ProblemType::token_classification; }
};

}  // namespace yoke
