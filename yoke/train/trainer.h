// Train, evaluate, save and load a model, on any devices, in one line each.
//
//   yoke::Trainer trainer({.model = "bert-base-uncased", .devices = "auto"});
//   trainer.train("train.csv");
//   trainer.evaluate("dev.csv");
//   trainer.save("out");
//
// One call at a time; stop() may be called from any thread. Every call throws yoke::Error and
// leaves the trainer usable; the caller's grad mode, thread count, device and generator are as
// before.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "yoke/train/options.h"

namespace torch::nn {
class Module;
}

namespace yoke {

struct TrainResult {
  int64_t steps = 0;
  double loss = 0;  // sum of target losses / targets over the whole call
  double seconds = 0;
  std::string path;      // where it was saved, empty when nowhere
  bool stopped = false;  // by stop(), before its end
};

struct Metrics {
  std::map<std::string, double>
      values;  // "loss"; "accuracy" or "mse"; of entities "precision", "recall", "f1"
  int64_t rows = 0;
  double operator[](const std::string& name) const { return values.at(name); }
};

class Trainer {
 public:
  // Loads nothing yet but the configuration, and checks devices and model folder.
  explicit Trainer(TrainerOptions options);
  ~Trainer();
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  // `eval_file`, when given, is evaluated after each epoch and at the end.
  TrainResult train(const std::string& file, const std::string& eval_file = "");
  Metrics evaluate(const std::string& file);

  // Rows in input order.
  std::vector<Prediction> predict(const std::string& file);
  std::vector<Prediction> predict(const std::vector<std::string>& texts);
  // Pairs of sentences; both vectors have the same length.
  std::vector<Prediction> predict(const std::vector<std::string>& texts,
                                  const std::vector<std::string>& text_pairs);

  // A Hugging Face folder: config.json, model.safetensors, tokenizer files. Returns its path.
  std::string save(const std::string& folder, bool overwrite = false);

  // Ends the running train() after the step under way; it saves as it would at its end and returns.
  void stop();

  // The model itself, with Hugging Face's parameter names, on the first device.
  torch::nn::Module& model();
  std::vector<std::string> labels() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace yoke
