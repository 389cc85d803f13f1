// A small BERT classifier and some rows, made on the spot without Python, for the trainer's tests.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "yoke/checkpoint/hf_folder.h"
#include "yoke/core/random.h"
#include "yoke/models/layers.h"
#include "yoke/models/model.h"

namespace yoke::testing {

namespace fs = std::filesystem;

inline const std::vector<std::string>& words() {
  static const std::vector<std::string> list{"good",  "fine", "great", "bad",  "poor",
                                             "awful", "film", "plot",  "cast", "the",
                                             "a",     "and",  "was",   "very"};
  return list;
}

class TinyModel {
 public:
  // A folder with config.json, vocab.txt and weights; `labels` 0 leaves the head out.
  explicit TinyModel(const std::string& name, int64_t labels = 0, double dropout = 0.1,
                     int64_t positions = 32) {
    root_ = fs::temp_directory_path() / ("yoke-train-" + std::to_string(::getpid()) + "-" + name);
    fs::remove_all(root_);
    fs::create_directories(root_);
    const std::string config = R"({"model_type": "bert", "vocab_size": 30, "hidden_size": 48,
      "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 96,
      "max_position_embeddings": )" +
                               std::to_string(positions) + R"(, "hidden_dropout_prob": )" +
                               std::to_string(dropout) + R"(, "attention_probs_dropout_prob": )" +
                               std::to_string(dropout) + "}";
    Json json = parse_json(config, "config.json", "test");
    for (int64_t id = 0; id < labels; ++id)
      json["id2label"][std::to_string(id)] = "LABEL_" + std::to_string(id);
    auto model = make_model(
        json, "text-classification", labels ? labels : 2,
        labels == 1 ? ProblemType::regression : ProblemType::single_label_classification);
    StateDict state;
    for (auto& item : model->named_parameters()) {
      initialize(item.value(), item.key(), 0.1, 3);
      if (labels || item.key().rfind("classifier", 0) != 0)
        state.insert(item.key(), item.value().detach());
    }
    std::string vocabulary = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n";
    for (const auto& word : words()) vocabulary += word + "\n";
    save_model_folder(model_folder(), state, json, {{"vocab.txt", vocabulary}});
  }
  ~TinyModel() { fs::remove_all(root_); }

  std::string model_folder() const { return (root_ / "model").string(); }
  std::string path(const std::string& name) const { return (root_ / name).string(); }

  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(root_ / name) << text;
    return path(name);
  }

  // Rows whose label says whether there are more good words than bad ones.
  std::string write_rows(const std::string& name, int64_t rows, uint64_t seed = 1,
                         const std::vector<std::string>& labels = {"0", "1"}) const {
    PhiloxStream random(seed, 77);
    std::string text = "sentence\tlabel\n";
    for (int64_t row = 0; row < rows; ++row) {
      const size_t label = random.below(2);
      const auto length = 1 + random.below(9);
      for (uint64_t i = 0; i < length; ++i) {
        const bool telling = random.below(2) || i == 0;
        text += words()[telling ? (label ? 0 : 3) + random.below(3) : 6 + random.below(8)] + " ";
      }
      text.back() = '\t';
      text += labels[label] + "\n";
    }
    return write(name, text);
  }

 private:
  fs::path root_;
};

}  // namespace yoke::testing
