#include "yoke/train/trainer.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <optional>

#include "yoke/core/error.h"
#include "yoke/core/file.h"
#include "yoke/core/log.h"
#include "yoke/data/batch_plan.h"
#include "yoke/data/loader.h"
#include "yoke/device/devices.h"
#include "yoke/parallel/replica_set.h"
#include "yoke/train/evaluation.h"
#include "yoke/train/failure.h"
#include "yoke/train/schedule.h"
#include "yoke/train/step.h"
#include "yoke/train/text_model.h"

namespace yoke {
namespace {

// The rows of one global batch, packed for every replica.
struct PreparedStep {
  GlobalBatch batch;
  std::vector<std::vector<MicroBatch>> shares;   // by rank
  std::vector<std::vector<PackedBatch>> packed;  // by rank, on the host
};

// No weight decay on biases and LayerNorm, as in the Hugging Face Trainer.
int decay_group(const std::string& name) {
  return name.find("bias") != std::string::npos || name.find("LayerNorm") != std::string::npos;
}

int64_t count_elements(const torch::nn::Module& module, bool trainable_only) {
  int64_t count = 0;
  for (const auto& parameter : module.parameters())
    if (!trainable_only || parameter.requires_grad()) count += parameter.numel();
  return count;
}

void check(const TrainerOptions& o) {
  auto fail = [](const std::string& what, const std::string& hint) {
    throw Error("train.options", what, hint);
  };
  if (o.model.empty()) fail("no model is named", ".model = \"a folder or name\" (--model)");
  if (o.task != "text-classification")
    fail("unknown task \"" + o.task + "\"", "text-classification");
  if (o.batch_size < 1) fail("the batch size is " + std::to_string(o.batch_size), "1 or more");
  if (o.logging_steps < 1) fail("logging_steps is " + std::to_string(o.logging_steps), "1 or more");
  if (o.max_length < 0 || o.max_train_rows < 0 || o.micro_batch_rows < 0 ||
      o.micro_batch_tokens < 0)
    fail("a limit is negative", "0 for none");
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
  void progress(Progress::Phase phase, int64_t done, int64_t total, int64_t rows) const {
    if (options.on_progress) options.on_progress({phase, done, total, rows});
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

  MicroBatchLimits training_limits() const;
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
  void announce_devices() const { log_info(describe_devices(devices)); }

  const TrainerOptions options;
  std::vector<c10::Device> devices;
  TextModel text;
  std::unique_ptr<ReplicaSet> replicas;
  std::atomic<bool> stop{false};
};

MicroBatchLimits Trainer::State::training_limits() const {
  int64_t tokens = options.micro_batch_tokens;
  if (tokens == 0) {
    const bool cuda = std::any_of(devices.begin(), devices.end(),
                                  [](c10::Device device) { return device.is_cuda(); });
    const int64_t budget = (cuda ? int64_t{8} : int64_t{3} / 2) << 30;
    tokens = std::clamp<int64_t>(budget / text.model()->activation_bytes_per_token(), 512, 65536);
  }
  return {options.micro_batch_rows, tokens};
}

Trainer::Trainer(TrainerOptions options) : state_(std::make_unique<State>(std::move(options))) {}
Trainer::~Trainer() = default;

TrainResult Trainer::train(const std::string& file, const std::string& eval_file) {
  auto& s = *state_;
  const auto& o = s.options;
  s.stop = false;
  const auto started = std::chrono::steady_clock::now();
  const Schedule check_schedule(o.lr_scheduler, o.learning_rate, o.warmup_steps, 1);
  if (!o.output.empty())
    AtomicFolder::check_target(o.output, {.overwrite = o.overwrite, .where = "train.output"});

  const TextRows rows =
      s.text.read(file, LabelNeed::required, LoadPurpose::train, o.max_train_rows);
  std::optional<TextRows> eval_rows;
  if (!eval_file.empty())
    eval_rows = s.text.read(eval_file, LabelNeed::required, LoadPurpose::train, 0);
  s.announce_devices();

  auto& model = *s.text.model();
  TrainPlan plan(rows.lengths, {o.batch_size, o.epochs, o.seed, o.shuffle});
  const Schedule schedule(o.lr_scheduler, o.learning_rate, o.warmup_steps, plan.steps());
  auto& replicas = s.replica_set();
  // A new run starts with new moments.
  for (int rank = 0; rank < replicas.size(); ++rank)
    replicas.replica(rank).memory().optimizer.reset();

  StartEvent start;
  for (auto device : s.devices) start.devices.push_back(device_name(device));
  start.model = o.model;
  start.parameters = count_elements(model, false);
  start.trainable = count_elements(model, true);
  start.rows = rows.size();
  start.steps = plan.steps();
  start.new_tensors = s.text.new_tensors();
  s.emit(start);

  const auto limits = s.training_limits();
  const int64_t world = replicas.size();
  Loader<PreparedStep> loader(plan.steps(), [&](int64_t step) {
    PreparedStep prepared;
    prepared.batch = plan.batch(step);
    prepared.shares = deal(prepared.batch, plan.lengths(), world, limits);
    for (const auto& share : prepared.shares) {
      prepared.packed.emplace_back();
      for (const auto& micro : share) prepared.packed.back().push_back(pack_rows(rows, micro));
    }
    return prepared;
  });

  model.train();
  struct Mode {  // the model is handed back as from_pretrained gives it
    Model& model;
    ~Mode() { model.eval(); }
  } mode{model};
  const AdamWOptions adamw{.weight_decay = {o.weight_decay, 0.0}};
  TrainResult result;
  double loss_sum = 0, targets = 0, all_loss_sum = 0, all_targets = 0;
  StepEvent line;
  int64_t seen = 0;
  while (auto prepared = loader.next()) {
    const auto& batch = prepared->batch;
    StepInput input;
    input.step = batch.step;
    input.targets = double(batch.rows.size());
    for (const auto& share : prepared->shares) input.micro_batches.push_back(share.size());
    input.learning_rate = schedule.at(batch.step);
    input.max_grad_norm = o.max_grad_norm;
    const auto output = run_step(
        replicas, input, adamw,
        [&](Replica& replica, size_t m) {
          auto& module = static_cast<Model&>(replica.module());
          const auto packed = prepared->packed[size_t(replica.rank())][m].to(replica.device());
          const auto losses =
              module.row_losses(module.forward(packed, {o.seed, batch.step}), packed.labels);
          return MicroLoss{losses.sum(), losses.detach().to(at::kDouble).sum().item<double>()};
        },
        [&](int rank, size_t m) {
          return describe_rows(rows,
                               rank < 0 ? batch.rows : prepared->shares[size_t(rank)][m].rows);
        });

    result.steps = batch.step + 1;
    seen += int64_t(batch.rows.size());
    loss_sum += output.loss_sum;
    targets += input.targets;
    line.rows += int64_t(batch.rows.size());
    line.tokens += batch.tokens;
    s.progress(Progress::Phase::train, result.steps, plan.steps(), seen);
    const bool stopping = s.stop;
    const bool last = stopping || result.steps == plan.steps();
    if (last || result.steps % o.logging_steps == 0) {
      line.step = result.steps;
      line.epoch = double(seen) / double(plan.rows());
      line.loss = loss_sum / targets;
      line.learning_rate = input.learning_rate;
      line.grad_norm = output.grad_norm;
      line.total_steps = plan.steps();
      s.emit(line);
      all_loss_sum += loss_sum;
      all_targets += targets;
      loss_sum = targets = 0;
      line.rows = line.tokens = 0;
    }
    const bool epoch_ends = result.steps % plan.steps_per_epoch() == 0;
    if (eval_rows && !stopping && (epoch_ends || last))
      s.emit(s.evaluation().evaluate(*eval_rows, result.steps));
    if (stopping) break;
  }
  result.stopped = result.steps < plan.steps();
  result.loss = all_targets > 0 ? all_loss_sum / all_targets : 0;
  if (!o.output.empty()) result.path = save(o.output, o.overwrite);
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
