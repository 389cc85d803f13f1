#include "yoke/train/text_model.h"

#include <algorithm>
#include <set>

#include "yoke/checkpoint/hf_folder.h"
#include "yoke/checkpoint/load_state.h"
#include "yoke/core/digest.h"
#include "yoke/core/error.h"
#include "yoke/core/log.h"
#include "yoke/models/layers.h"
#include "yoke/train/token_rows.h"

namespace yoke {
namespace {

LoadRules rules_for(const ModelNames& names, LoadPurpose purpose) {
  LoadRules rules;
  rules.base_prefix = names.base_prefix;
  rules.own_head = names.head;
  rules.head_may_be_missing = purpose == LoadPurpose::train;
  return rules;
}

NamedTensors named_tensors(const torch::nn::Module& module) {
  NamedTensors tensors;
  for (const auto& item : module.named_parameters()) tensors.emplace_back(item.key(), item.value());
  for (const auto& item : module.named_buffers()) tensors.emplace_back(item.key(), item.value());
  return tensors;
}

// The task that was asked for, else the one of the model's head.
std::string choose_task(const TrainerOptions& options, const Json& config) {
  if (!options.task.empty()) return options.task;
  const std::string task = task_of(config);
  return task.empty() ? "text-classification" : task;
}

}  // namespace

TextModel::TextModel(const TrainerOptions& options)
    : options_(options),
      folder_(resolve_model(options.model)),
      config_(read_config(folder_)),
      task_(choose_task(options, config_)),
      probe_(make_model(config_, task_, 1, ProblemType::regression)),
      file_(read_weights(folder_, &file_name_)),
      tokenizer_(Tokenizer::from_folder(folder_.path)) {
  file_has_head_ = has_head(file_, rules_for(probe_->names(), LoadPurpose::use));
  if (const std::string task = task_of(config_); file_has_head_ && !task.empty() && task != task_)
    throw Error("models.load",
                options_.model + " has a head for " + task + ", the task is " + task_,
                ".task = \"" + task + "\" (--task " + task + "), or a base model");
  if (file_has_head_) labels_ = LabelMap::from_config(config_);
  if (tokenizer_.ids_end() > probe_->vocab_size())
    throw Error("models.load",
                options_.model + ": the tokenizer has ids up to " +
                    std::to_string(tokenizer_.ids_end() - 1) + ", the model's vocabulary ends at " +
                    std::to_string(probe_->vocab_size() - 1),
                "the tokenizer files that belong to this model");
}

std::shared_ptr<Model> TextModel::make_empty() const {
  return make_model(config_, task_, labels_.size(), problem_type());
}

ProblemType TextModel::problem_type() const {
  if (labels_tokens()) return ProblemType::token_classification;
  return labels_.regression() ? ProblemType::regression : ProblemType::single_label_classification;
}

void TextModel::load(LoadPurpose purpose, const LabelMap* labels) {
  if (!file_has_head_) labels_ = labels ? *labels : LabelMap::from_config(config_);
  auto model = make_empty();
  const auto tensors = named_tensors(*model);
  const auto report = load_state(file_, tensors, rules_for(model->names(), purpose), file_name_);
  for (const auto& [name, tensor] : tensors)
    if (std::find(report.new_tensors.begin(), report.new_tensors.end(), name) !=
        report.new_tensors.end())
      initialize(tensor, name, model->initializer_range(), options_.seed);
  model->eval();
  new_tensors_ = report.new_tensors;
  model_ = std::move(model);
  file_ = {};  // unmaps the file
}

int64_t TextModel::max_length() const {
  const int64_t positions = probe_->max_positions();
  if (options_.max_length > positions)
    throw Error("train.options",
                "max_length is " + std::to_string(options_.max_length) + ", the model has " +
                    std::to_string(positions) + " positions",
                ".max_length = " + std::to_string(positions) + " (--max-length) or less");
  if (options_.max_length > 0) return options_.max_length;
  return std::min(positions, tokenizer_.model_max_length().value_or(positions));
}

void TextModel::finish(TextRows& rows) const {
  for (const auto& ids : rows.tokens.input_ids) {
    if (ids.empty())
      throw Error("data.encode",
                  "row " + std::to_string(rows.source_rows[rows.lengths.size()]) + " has no tokens",
                  "a tokenizer that adds [CLS] and [SEP]");
    rows.lengths.push_back(int64_t(ids.size()));
  }
  if (rows.tokens.shortened > 0)
    log_info((rows.file.empty() ? std::string() : rows.file + ": ") +
             std::to_string(rows.tokens.shortened) + " of " + std::to_string(rows.size()) +
             " rows were cut to " + std::to_string(max_length()) + " tokens");
}

TextRows TextModel::tokenized(const TextDataset& dataset) const {
  TextRows rows;
  rows.tokens = tokenize(dataset, tokenizer_, max_length());
  rows.file = dataset.file;
  rows.source_rows = dataset.source_rows;
  finish(rows);
  return rows;
}

void TextModel::load_for(LoadPurpose purpose, const std::function<LabelMap()>& labels_of_file) {
  if (loaded()) return;
  if (purpose != LoadPurpose::train) return load(purpose, nullptr);
  const LabelMap labels = labels_of_file();
  // A head that only counts its classes takes their names from the first file it is trained on.
  if (file_has_head_ && !labels_.has_names() && !labels_.regression() && labels.has_names() &&
      labels.size() == labels_.size() && !labels_.find(labels.name(0)))
    labels_.set_names(labels.names());
  load(purpose, &labels);
}

TextRows TextModel::read(const std::string& file, LabelNeed need, LoadPurpose purpose,
                         int64_t max_rows) {
  return labels_tokens() ? read_tokens(file, need, purpose, max_rows)
                         : read_texts(file, need, purpose, max_rows);
}

TextRows TextModel::read_texts(const std::string& file, LabelNeed need, LoadPurpose purpose,
                               int64_t max_rows) {
  const TextDataset dataset = load_text_dataset(file, options_.data, need, max_rows);
  load_for(purpose, [&] { return LabelMap::from_labels(dataset); });
  TextRows rows = tokenized(dataset);
  if (need == LabelNeed::required) {
    if (labels_.regression()) {
      rows.values = labels_.values(dataset);
    } else {
      rows.class_labels = labels_.class_ids(dataset);
    }
    rows.targets.assign(size_t(rows.size()), 1);
  }
  return rows;
}

TextRows TextModel::read_tokens(const std::string& file, LabelNeed need, LoadPurpose purpose,
                                int64_t max_rows) {
  const TokenDataset dataset = load_token_dataset(file, options_.data, need, max_rows);
  if (purpose == LoadPurpose::train && !loaded() && !file_has_head_ && dataset.label_names.empty())
    throw Error("data.labels", file + ": no token has a label, so there is nothing to learn",
                "labels other than -100 and null");
  load_for(purpose, [&] { return LabelMap::from_labels(dataset); });
  TextRows rows = token_rows(dataset, tokenizer_, max_length());
  finish(rows);
  if (need == LabelNeed::required) set_token_labels(rows, dataset, labels_);
  return rows;
}

TextRows TextModel::encode(std::vector<std::string> texts, std::vector<std::string> pairs) const {
  std::vector<int64_t> source_rows;
  for (size_t row = 1; row <= texts.size(); ++row) source_rows.push_back(int64_t(row));
  if (labels_tokens()) {
    if (!pairs.empty())
      throw Error("data.encode", "token classification has no second text", "one text a row");
    TokenDataset dataset;
    for (const auto& text : texts) dataset.tokens.push_back(split_words(text));
    dataset.source_rows = std::move(source_rows);
    TextRows rows = token_rows(dataset, tokenizer_, max_length());
    finish(rows);
    return rows;
  }
  TextDataset dataset;
  dataset.texts = std::move(texts);
  dataset.pairs = std::move(pairs);
  dataset.source_rows = std::move(source_rows);
  return tokenized(dataset);
}

void TextModel::restore(const std::string& folder) {
  c10::NoGradGuard no_grad;
  std::string file;
  const StateDict state = read_weights(resolve_model(folder), &file);
  load_state(state, named_tensors(*model_), rules_for(model_->names(), LoadPurpose::use), file);
}

std::string TextModel::weights_digest() const {
  Digest digest;
  for (const auto& [name, tensor] : named_tensors(*model_)) {
    const auto host = tensor.detach().cpu().contiguous();
    digest.add(name);
    digest.add(host.const_data_ptr(), host.nbytes());
  }
  return digest.hex();
}

std::string TextModel::save(const std::string& folder, bool overwrite, const Extra& extra) const {
  Json config = config_;
  config["architectures"] = Json::array({model_->architecture()});
  config["dtype"] = "float32";
  config.erase("torch_dtype");
  config.erase("_name_or_path");
  labels_.write(config, labels_tokens());
  StateDict state;
  for (const auto& [name, tensor] : named_tensors(*model_)) state.insert(name, tensor.detach());
  auto files = tokenizer_.files();
  files.insert(extra.files.begin(), extra.files.end());
  save_model_folder(folder, state, config, files,
                    {.overwrite = overwrite, .extra_tensors = extra.tensors});
  return folder;
}

}  // namespace yoke
