#include "yoke/train/trainer.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <optional>

#include "yoke/core/error.h"
#include "yoke/core/file.h"
#include "yoke/core/log.h"
#include "yoke/core/suggest.h"
#include "yoke/device/devices.h"
#include "yoke/parallel/replica_set.h"
#include "yoke/train/evaluation.h"
#include "yoke/train/failure.h"
#include "yoke/train/resume.h"
#include "yoke/train/schedule.h"
#include "yoke/train/text_model.h"
#include "yoke/train/training_run.h"

namespace yoke {
namespace {

// No weight decay on biases and LayerNorm, as in the Hugging Face Trainer.
int decay_group(const std::string& name) {
  return name.find("bias") != std::string::npos || name.find("LayerNorm") != std::string::npos;
}

void check(const TrainerOptions& o) {
  auto fail = [](const std::string& what, const std::string& hint) {
    throw Error("train.options", what, hint);
  };
  if (o.model.empty()) fail("no model is named", ".model = \"a folder or name\" (--model)");
  if (!o.task.empty() && o.task != "text-classification" && o.task != "token-classification")
    fail("unknown task \"" + o.task + "\"", "text-classification or token-classification");
  if (o.batch_size < 1) fail("the batch size is " + std::to_string(o.batch_size), "1 or more");
  if (o.logging_steps < 1) fail("logging_steps is " + std::to_string(o.logging_steps), "1 or more");
  if (o.max_length < 0 || o.max_train_rows < 0 || o.micro_batch_rows < 0 ||
      o.micro_batch_tokens < 0)
    fail("a limit is negative", "0 for none");
  const auto one_of = [&](const char* name, const std::string& value,
                          const std::vector<std::string>& known) {
    if (std::find(known.begin(), known.end(), value) == known.end())
      fail(std::string("unknown ") + name + " \"" + value + "\"", "one of: " + join_names(known));
  };
  one_of("mode", o.mode, {"fast", "exact"});
  one_of("balance", o.balance, {"tokens", "speed"});
  if (!o.on_oom.empty()) one_of("on_oom", o.on_oom, {"split", "stop"});
  if (o.logical_shards < 0 || o.logical_shards > 4096)
    fail("logical_shards is " + std::to_string(o.logical_shards), "1 to 4096, or 0 for 8");
  if (o.mode == "fast" && o.logical_shards > 0)
    fail("logical_shards is of mode exact", ".mode = \"exact\" (--mode exact)");
  if (o.mode == "exact" && o.balance == "speed")
    fail("balance by speed is of mode fast: in exact shards are fixed", ".balance = \"tokens\"");
  if (o.save_steps < 0 || o.save_total_limit < 0)
    fail("save_steps and save_total_limit must be 0 or above", "0 for none");
  if (o.save_steps > 0 && o.output.empty())
    fail("save_steps without an output folder", ".output (--output)");
  if (!(o.weight_decay >= 0) || !(o.max_grad_norm >= 0))
    fail("weight_decay and max_grad_norm must be 0 or above", "0 to switch them off");
}

}  // namespace

struct Trainer::State {
  explicit State(TrainerOptions o)
      : options((check(o), std::move(o))), devices(parse_devices(options.devices)), text(options) {}

  void emit(const Event& event) const {
    if (options.on_event) options.on_event(event);
  }
  ReplicaSet& replica_set() {
    if (!replicas) try {
        replicas = std::make_unique<ReplicaSet>(
            text.model(), [this] { return text.make_empty(); }, devices,
            ReplicaSetOptions{.group = decay_group});
      } catch (...) {
        rethrow_at("train.replicas", "placing the model on its devices");
      }
    return *replicas;
  }

  Evaluation evaluation() {
    // The cut must not depend on the devices, so it does not ask them.
    return Evaluation(
        replica_set(), text,
        {options.batch_size, options.micro_batch_tokens ? options.micro_batch_tokens : 4096},
        options.on_progress);
  }
  std::vector<Prediction> predict(const TextRows& rows) {
    return evaluation().predict(rows, [this](const PredictEvent& event) { emit(event); });
  }
  // Whether the output folder is of the run that goes on.
  bool owns_output(const ResumePoint* resume) const {
    if (!resume) return false;
    const auto output = std::filesystem::weakly_canonical(options.output);
    const auto from = std::filesystem::weakly_canonical(resume->path);
    return from == output || from.parent_path() == output;
  }
  void announce_devices() const { log_info(describe_devices(devices)); }

  const TrainerOptions options;
  std::vector<c10::Device> devices;
  TextModel text;
  std::unique_ptr<ReplicaSet> replicas;
  std::atomic<bool> stop{false};
  std::string started_from;  // digest of the weights that the last run began with
};

Trainer::Trainer(TrainerOptions options) : state_(std::make_unique<State>(std::move(options))) {}
Trainer::~Trainer() = default;

TrainResult Trainer::train(const std::string& file, const std::string& eval_file) {
  auto& s = *state_;
  const auto& o = s.options;
  s.stop = false;
  const auto started = std::chrono::steady_clock::now();
  const Schedule check_schedule(o.lr_scheduler, o.learning_rate, o.warmup_steps, 1);
  const auto resume = find_resume_point(o);
  if (!o.output.empty())
    AtomicFolder::check_target(o.output, {.overwrite = o.overwrite || s.owns_output(resume.get()),
                                          .where = "train.output"});

  const TextRows rows =
      s.text.read(file, LabelNeed::required, LoadPurpose::train, o.max_train_rows);
  std::optional<TextRows> eval_rows;
  if (!eval_file.empty())
    eval_rows = s.text.read(eval_file, LabelNeed::required, LoadPurpose::train, 0);
  s.announce_devices();

  // What the run starts from, or started from when it began in this process or goes on here.
  // Checkpoints alone ask for it.
  std::string weights = o.output.empty() ? std::string() : s.text.weights_digest();
  if (resume && s.started_from == resume->state.identity.value("model", ""))
    weights = s.started_from;
  s.started_from = weights;

  auto& replicas = s.replica_set();
  RunHost host{o,
               s.devices,
               s.text,
               replicas,
               s.stop,
               [&s](const Event& event) { s.emit(event); },
               [&s](const Progress& progress) {
                 if (s.options.on_progress) s.options.on_progress(progress);
               },
               {}};
  if (eval_rows)
    host.evaluate = [&](int64_t step) { return s.evaluation().evaluate(*eval_rows, step); };
  TrainingRun run(std::move(host), rows, weights, resume.get());
  // A new run starts with new moments.
  for (int rank = 0; rank < replicas.size(); ++rank)
    replicas.replica(rank).memory().optimizer.reset();
  if (resume) {
    s.text.restore(resume->path);
    if (!resume->state.finished) restore_optimizer(*resume, replicas);
  }
  TrainResult result = run.run();
  result.seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();
  return result;
}

Metrics Trainer::evaluate(const std::string& file) {
  auto& s = *state_;
  if (!s.text.loaded()) s.text.load(LoadPurpose::use, nullptr);
  const TextRows rows = s.text.read(file, LabelNeed::required, LoadPurpose::use, 0);
  s.announce_devices();
  const auto event = s.evaluation().evaluate(rows, 0);
  s.emit(event);
  Metrics metrics;
  metrics.rows = event.rows;
  metrics.values["loss"] = event.loss;
  if (event.has_accuracy) {
    metrics.values["accuracy"] = event.accuracy;
    if (event.entities) {
      metrics.values["precision"] = event.entities->precision;
      metrics.values["recall"] = event.entities->recall;
      metrics.values["f1"] = event.entities->f1;
    }
  } else {
    metrics.values["mse"] = event.mse;
  }
  return metrics;
}

std::vector<Prediction> Trainer::predict(const std::string& file) {
  auto& s = *state_;
  if (!s.text.loaded()) s.text.load(LoadPurpose::use, nullptr);
  const TextRows rows = s.text.read(file, LabelNeed::ignored, LoadPurpose::use, 0);
  s.announce_devices();
  return s.predict(rows);
}

std::vector<Prediction> Trainer::predict(const std::vector<std::string>& texts) {
  return predict(texts, {});
}

std::vector<Prediction> Trainer::predict(const std::vector<std::string>& texts,
                                         const std::vector<std::string>& text_pairs) {
  auto& s = *state_;
  if (!text_pairs.empty() && text_pairs.size() != texts.size())
    throw Error("train.predict", std::to_string(texts.size()) + " texts and " +
                                     std::to_string(text_pairs.size()) + " text pairs");
  if (!s.text.loaded()) s.text.load(LoadPurpose::use, nullptr);
  return s.predict(s.text.encode(texts, text_pairs));
}

std::string Trainer::save(const std::string& folder, bool overwrite) {
  auto& s = *state_;
  if (!s.text.loaded()) s.text.load(LoadPurpose::use, nullptr);
  const std::string path = s.text.save(folder, overwrite);
  s.emit(SavedEvent{path});
  return path;
}

void Trainer::stop() { state_->stop = true; }

torch::nn::Module& Trainer::model() {
  if (!state_->text.loaded()) state_->text.load(LoadPurpose::use, nullptr);
  return *state_->text.model();
}

std::vector<std::string> Trainer::labels() const { return state_->text.labels().names(); }

}  // namespace yoke
