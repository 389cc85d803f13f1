// A model folder brought to life for text: configuration, tokenizer, labels, weights.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "yoke/checkpoint/model_folder.h"
#include "yoke/checkpoint/state_dict.h"
#include "yoke/core/json.h"
#include "yoke/data/labels.h"
#include "yoke/data/text_dataset.h"
#include "yoke/models/model.h"
#include "yoke/tokenizers/tokenizer.h"
#include "yoke/train/options.h"
#include "yoke/train/text_rows.h"

namespace yoke {

// Why weights are loaded; decides what a file may lack (docs/design.md, "Files").
enum class LoadPurpose { train, use };

class TextModel {
 public:
  // Reads configuration and tokenizer; weights are mapped, not yet copied. Throws Error for a
  // folder that is not a model.
  explicit TextModel(const TrainerOptions& options);

  // Makes the module and fills it. `labels` decides the head where the file has none; null: the
  // configuration. Once.
  void load(LoadPurpose purpose, const LabelMap* labels);
  bool loaded() const { return model_ != nullptr; }

  // Reads a file, encodes it and turns its labels into numbers. For training a model that is not
  // loaded yet, this loads it with the file's labels.
  TextRows read(const std::string& file, LabelNeed need, LoadPurpose purpose, int64_t max_rows);
  // Rows given as they are, without labels; `pairs` empty or one a text. For a model that labels
  // tokens a text is cut into words at white space.
  TextRows encode(std::vector<std::string> texts, std::vector<std::string> pairs) const;

  // A Hugging Face folder, with further files beside what such a folder holds.
  struct Extra {
    std::map<std::string, std::string> files;
    std::map<std::string, StateDict> tensors;
  };
  std::string save(const std::string& folder, bool overwrite, const Extra& extra = {}) const;

  // Replaces all weights by those of a folder that save() wrote.
  void restore(const std::string& folder);
  // Changes whenever a weight or buffer does.
  std::string weights_digest() const;

  const std::shared_ptr<Model>& model() const { return model_; }
  std::shared_ptr<Model> make_empty() const;
  const LabelMap& labels() const { return labels_; }
  const std::vector<std::string>& new_tensors() const { return new_tensors_; }
  int64_t max_length() const;
  // The one that was asked for, else that of the model's head.
  const std::string& task() const { return task_; }
  // Whether tokens are the targets, not rows.
  bool labels_tokens() const { return probe_->problem_type() == ProblemType::token_classification; }

 private:
  TextRows read_texts(const std::string& file, LabelNeed need, LoadPurpose purpose,
                      int64_t max_rows);
  TextRows read_tokens(const std::string& file, LabelNeed need, LoadPurpose purpose,
                       int64_t max_rows);
  // Loads with the labels of a training file where the model is not loaded yet.
  void load_for(LoadPurpose purpose, const std::function<LabelMap()>& labels_of_file);
  TextRows tokenized(const TextDataset& dataset) const;
  // What all kinds of rows have: lengths, and the log of rows that were cut.
  void finish(TextRows& rows) const;
  ProblemType problem_type() const;

  const TrainerOptions& options_;
  const ModelFolder folder_;
  const Json config_;
  const std::string task_;
  // Answers what does not depend on the head; its weights are never touched. Made before the
  // weights are read, so that a folder of another kind is told as such.
  const std::shared_ptr<const Model> probe_;
  std::string file_name_;  // of the weights
  StateDict file_;         // mapped, until loaded
  const Tokenizer tokenizer_;
  bool file_has_head_ = false;
  LabelMap labels_;
  std::shared_ptr<Model> model_;
  std::vector<std::string> new_tensors_;
};

}  // namespace yoke
