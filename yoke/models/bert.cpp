#include "yoke/models/bert.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/Reduction.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/mse_loss.h>
#include <ATen/ops/tanh.h>

#include "yoke/core/error.h"
#include "yoke/data/ignored_label.h"
#include "yoke/models/ops/attention.h"

namespace yoke {
namespace {

template <class T>
void read(const Json& config, const char* key, T& value) {
  const auto found = config.find(key);
  if (found == config.end() || found->is_null()) return;
  try {
    value = found->get<T>();
  } catch (const nlohmann::json::exception&) {
    throw Error("models.config",
                std::string("config.json: \"") + key + "\" has the wrong type: " + found->dump());
  }
}

// A container that only gives its children a name in between ("attention.self.query").
std::shared_ptr<torch::nn::Module> group(torch::nn::Module& parent, const std::string& name) {
  struct Group : torch::nn::Module {};
  return parent.register_module(
      name, std::static_pointer_cast<torch::nn::Module>(std::make_shared<Group>()));
}

}  // namespace

BertConfig BertConfig::from_json(const Json& json) {
  BertConfig c;
  read(json, "vocab_size", c.vocab_size);
  read(json, "hidden_size", c.hidden_size);
  read(json, "num_hidden_layers", c.num_hidden_layers);
  read(json, "num_attention_heads", c.num_attention_heads);
  read(json, "intermediate_size", c.intermediate_size);
  read(json, "hidden_act", c.hidden_act);
  read(json, "hidden_dropout_prob", c.hidden_dropout_prob);
  read(json, "attention_probs_dropout_prob", c.attention_probs_dropout_prob);
  c.classifier_dropout = c.hidden_dropout_prob;
  read(json, "classifier_dropout", c.classifier_dropout);
  read(json, "max_position_embeddings", c.max_position_embeddings);
  read(json, "type_vocab_size", c.type_vocab_size);
  if (json.contains("pad_token_id") && json["pad_token_id"].is_null()) c.pad_token_id = -1;
  read(json, "pad_token_id", c.pad_token_id);
  read(json, "initializer_range", c.initializer_range);
  read(json, "layer_norm_eps", c.layer_norm_eps);

  std::string positions = "absolute";
  read(json, "position_embedding_type", positions);
  if (positions != "absolute")
    throw Error("models.config",
                "config.json: position_embedding_type \"" + positions + "\" is not supported",
                "a model with absolute positions");
  bool decoder = false;
  read(json, "is_decoder", decoder);
  if (decoder) throw Error("models.config", "config.json: is_decoder is true", "an encoder");
  for (const auto& [name, value] : {std::pair<const char*, int64_t>{"vocab_size", c.vocab_size},
                                    {"hidden_size", c.hidden_size},
                                    {"num_attention_heads", c.num_attention_heads},
                                    {"intermediate_size", c.intermediate_size},
                                    {"max_position_embeddings", c.max_position_embeddings},
                                    {"type_vocab_size", c.type_vocab_size}})
    if (value < 1 || value > (int64_t{1} << 31))
      throw Error("models.config",
                  std::string("config.json: ") + name + " is " + std::to_string(value));
  if (c.num_hidden_layers < 0 || c.num_hidden_layers > 10000)
    throw Error("models.config",
                "config.json: num_hidden_layers is " + std::to_string(c.num_hidden_layers));
  if (c.hidden_size % c.num_attention_heads != 0)
    throw Error("models.config", "config.json: hidden_size " + std::to_string(c.hidden_size) +
                                     " is not a multiple of num_attention_heads " +
                                     std::to_string(c.num_attention_heads));
  for (double p : {c.hidden_dropout_prob, c.attention_probs_dropout_prob, c.classifier_dropout})
    if (!(p >= 0 && p < 1))
      throw Error("models.config", "config.json: a dropout probability is " + std::to_string(p),
                  "a value in [0, 1)");
  activation(c.hidden_act);
  return c;
}

BertEmbeddings::BertEmbeddings(const BertConfig& c)
    : word_embeddings(register_module(
          "word_embeddings",
          std::make_shared<Embedding>(c.vocab_size, c.hidden_size, c.pad_token_id))),
      position_embeddings(
          register_module("position_embeddings",
                          std::make_shared<Embedding>(c.max_position_embeddings, c.hidden_size))),
      token_type_embeddings(register_module(
          "token_type_embeddings", std::make_shared<Embedding>(c.type_vocab_size, c.hidden_size))),
      norm(register_module("LayerNorm",
                           std::make_shared<LayerNorm>(c.hidden_size, c.layer_norm_eps))) {}

at::Tensor BertEmbeddings::forward(const PackedBatch& batch, const DropoutSite& dropout) const {
  auto sum = word_embeddings->forward(batch.input_ids);
  sum = sum + (batch.token_type_ids.defined() ? token_type_embeddings->forward(batch.token_type_ids)
                                              : token_type_embeddings->weight.select(0, 0));
  sum = sum + position_embeddings->forward(batch.position_ids);
  return row_dropout(norm->forward(sum), batch.slot_ids, batch.position_ids, dropout);
}

BertLayer::BertLayer(const BertConfig& c, int64_t index)
    : index_(index),
      heads_(c.num_attention_heads),
      hidden_dropout_(c.hidden_dropout_prob),
      attention_dropout_(c.attention_probs_dropout_prob),
      activation_(activation(c.hidden_act)) {
  const auto linear = [](torch::nn::Module& parent, const char* name, int64_t in, int64_t out) {
    return parent.register_module(name, std::make_shared<Linear>(in, out));
  };
  const auto norm = [&](torch::nn::Module& parent) {
    return parent.register_module("LayerNorm",
                                  std::make_shared<LayerNorm>(c.hidden_size, c.layer_norm_eps));
  };
  auto attention = group(*this, "attention");
  auto self = group(*attention, "self");
  query_ = linear(*self, "query", c.hidden_size, c.hidden_size);
  key_ = linear(*self, "key", c.hidden_size, c.hidden_size);
  value_ = linear(*self, "value", c.hidden_size, c.hidden_size);
  auto attention_output = group(*attention, "output");
  attention_output_ = linear(*attention_output, "dense", c.hidden_size, c.hidden_size);
  attention_norm_ = norm(*attention_output);
  auto intermediate = group(*this, "intermediate");
  intermediate_ = linear(*intermediate, "dense", c.hidden_size, c.intermediate_size);
  auto output = group(*this, "output");
  output_ = linear(*output, "dense", c.intermediate_size, c.hidden_size);
  output_norm_ = norm(*output);
}

DropoutSite BertLayer::site(double p, int64_t which, const RunContext& context) const {
  return {.p = is_training() ? p : 0.0,
          .seed = context.seed,
          .layer = uint64_t(1 + 3 * index_ + which),
          .step = context.step};
}

at::Tensor BertLayer::forward(const at::Tensor& hidden, const PackedBatch& batch,
                              const RunContext& context) const {
  const auto attended = packed_attention(query_->forward(hidden), key_->forward(hidden),
                                         value_->forward(hidden), batch.cu_seqlens, batch.slot_ids,
                                         heads_, site(attention_dropout_, 0, context));
  const auto first =
      attention_norm_->forward(row_dropout(attention_output_->forward(attended), batch.slot_ids,
                                           batch.position_ids, site(hidden_dropout_, 1, context)) +
                               hidden);
  return output_norm_->forward(
      row_dropout(output_->forward(activation_(intermediate_->forward(first))), batch.slot_ids,
                  batch.position_ids, site(hidden_dropout_, 2, context)) +
      first);
}

BertModel::BertModel(const BertConfig& c, bool with_pooler)
    : embeddings(register_module("embeddings", std::make_shared<BertEmbeddings>(c))),
      dropout_(c.hidden_dropout_prob) {
  auto encoder = group(*this, "encoder");
  auto list = group(*encoder, "layer");
  for (int64_t i = 0; i < c.num_hidden_layers; ++i)
    layers.push_back(list->register_module(std::to_string(i), std::make_shared<BertLayer>(c, i)));
  if (with_pooler)
    pooler = group(*this, "pooler")
                 ->register_module("dense", std::make_shared<Linear>(c.hidden_size, c.hidden_size));
}

at::Tensor BertModel::forward(const PackedBatch& batch, const RunContext& context) const {
  auto hidden = embeddings->forward(
      batch, {.p = is_training() ? dropout_ : 0.0, .seed = context.seed, .step = context.step});
  for (const auto& layer : layers) hidden = layer->forward(hidden, batch, context);
  return hidden;
}

at::Tensor BertModel::pooled(const at::Tensor& hidden, const PackedBatch& batch) const {
  return at::tanh(pooler->forward(hidden.index_select(0, batch.first_tokens)));
}

BertWithClassifier::BertWithClassifier(const BertConfig& config, int64_t num_labels,
                                       bool with_pooler)
    : bert(register_module("bert", std::make_shared<BertModel>(config, with_pooler))),
      classifier(
          register_module("classifier", std::make_shared<Linear>(config.hidden_size, num_labels))),
      config_(config),
      num_labels_(num_labels) {}

at::Tensor BertWithClassifier::classify(const at::Tensor& features, const at::Tensor& slots,
                                        const at::Tensor& positions,
                                        const RunContext& context) const {
  const DropoutSite site{.p = is_training() ? config_.classifier_dropout : 0.0,
                         .seed = context.seed,
                         .layer = uint64_t(1 + 3 * config_.num_hidden_layers),
                         .step = context.step};
  return classifier->forward(row_dropout(features, slots, positions, site));
}

ModelNames BertWithClassifier::names() const { return {"bert.", {"classifier.*"}}; }

int64_t BertWithClassifier::activation_bytes_per_token() const {
  // Floats that autograd keeps of a layer: inputs and outputs of the linear maps, dropouts and
  // norms.
  return 4 * config_.num_hidden_layers * (12 * config_.hidden_size + 3 * config_.intermediate_size);
}

BertForSequenceClassification::BertForSequenceClassification(const BertConfig& config,
                                                             int64_t num_labels, ProblemType type)
    : BertWithClassifier(config, num_labels, true), type_(type) {}

at::Tensor BertForSequenceClassification::forward(const PackedBatch& batch,
                                                  const RunContext& context) {
  return classify(bert->pooled(bert->forward(batch, context), batch),
                  batch.slot_ids.index_select(0, batch.first_tokens),
                  batch.position_ids.index_select(0, batch.first_tokens), context);
}

at::Tensor BertForSequenceClassification::target_losses(const at::Tensor& logits,
                                                        const at::Tensor& labels) const {
  if (type_ == ProblemType::regression)
    return at::mse_loss(logits.squeeze(1), labels, at::Reduction::None);
  return at::cross_entropy_loss(logits, labels, {}, at::Reduction::None);
}

BertForTokenClassification::BertForTokenClassification(const BertConfig& config, int64_t num_labels)
    : BertWithClassifier(config, num_labels, false) {}

at::Tensor BertForTokenClassification::forward(const PackedBatch& batch,
                                               const RunContext& context) {
  return classify(bert->forward(batch, context), batch.slot_ids, batch.position_ids, context);
}

at::Tensor BertForTokenClassification::target_losses(const at::Tensor& logits,
                                                     const at::Tensor& labels) const {
  return at::cross_entropy_loss(logits, labels, {}, at::Reduction::None, ignored_label);
}

}  // namespace yoke
