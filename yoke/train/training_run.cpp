#include "yoke/train/training_run.h"

#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/sum.h>

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <utility>

#include "yoke/core/digest.h"
#include "yoke/core/error.h"
#include "yoke/core/failpoint.h"
#include "yoke/core/log.h"
#include "yoke/data/loader.h"
#include "yoke/device/devices.h"
#include "yoke/train/failure.h"
#include "yoke/train/optimizer_state.h"

namespace yoke {
namespace {

constexpr int64_t default_shards = 8;

std::string digest_of(const TextRows& rows) {
  Digest digest;
  for (const auto& ids : rows.tokens.input_ids) digest.add(ids);
  for (const auto& types : rows.tokens.token_type_ids) digest.add(types);
  digest.add(rows.class_labels);
  digest.add(rows.values);
  for (const auto& labels : rows.token_labels) digest.add(labels);
  return std::to_string(rows.size()) + " rows, " + digest.hex();
}

int64_t logical_shards_of(const TrainerOptions& options, const ResumePoint* resume) {
  if (options.logical_shards > 0) return options.logical_shards;
  if (resume) return resume->state.identity.value("logical_shards", default_shards);
  return default_shards;
}

// In mode exact CUDA uses kernels that give the same bits each time, and LibTorch refuses, by name,
// operators that have none.
class DeterministicKernels {
 public:
  DeterministicKernels(bool exact, const std::vector<c10::Device>& devices)
      : on_(exact && std::any_of(devices.begin(), devices.end(),
                                 [](c10::Device device) { return device.is_cuda(); })) {
    if (!on_) return;
    auto& context = at::globalContext();
    algorithms_ = context.deterministicAlgorithms();
    warn_only_ = context.deterministicAlgorithmsWarnOnly();
    cudnn_ = context.deterministicCuDNN();
    benchmark_ = context.benchmarkCuDNN();
    ::setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", /*overwrite=*/0);
    context.setDeterministicAlgorithms(true, false);
    context.setDeterministicCuDNN(true);
    context.setBenchmarkCuDNN(false);
  }
  ~DeterministicKernels() {
    if (!on_) return;
    auto& context = at::globalContext();
    context.setDeterministicAlgorithms(algorithms_, warn_only_);
    context.setDeterministicCuDNN(cudnn_);
    context.setBenchmarkCuDNN(benchmark_);
  }
  DeterministicKernels(const DeterministicKernels&) = delete;
  DeterministicKernels& operator=(const DeterministicKernels&) = delete;

 private:
  const bool on_;
  bool algorithms_ = false, warn_only_ = false, cudnn_ = false, benchmark_ = false;
};

std::vector<std::string> names_of(const std::vector<c10::Device>& devices) {
  std::vector<std::string> names;
  for (auto device : devices) names.push_back(device_name(device));
  return names;
}

}  // namespace

// The rows of one global batch, packed for every shard.
struct TrainingRun::Prepared {
  GlobalBatch batch;
  MicroBatchLimits limits;
  double targets = 0;
  std::vector<std::vector<MicroBatch>> shares;   // by shard
  std::vector<std::vector<PackedBatch>> packed;  // by shard, on the host
};

TrainingRun::TrainingRun(RunHost host, const TextRows& rows, const std::string& started_from,
                         const ResumePoint* resume)
    : host_(std::move(host)),
      rows_(rows),
      exact_(host_.options.mode == "exact"),
      plan_(rows.lengths, {host_.options.batch_size, host_.options.epochs, host_.options.seed,
                           host_.options.shuffle}),
      schedule_(host_.options.lr_scheduler, host_.options.learning_rate, host_.options.warmup_steps,
                plan_.steps()),
      folder_(host_.options.output),
      shards_(exact_ ? logical_shards_of(host_.options, resume) : host_.replicas.size()),
      limits_(default_limits()),
      balance_(names_of(host_.devices), host_.options.balance == "speed") {
  if (host_.replicas.size() > shards_)
    throw Error("train.options",
                std::to_string(host_.replicas.size()) + " devices for " + std::to_string(shards_) +
                    " logical shards: some would have nothing to do",
                "at least as many .logical_shards (--logical-shards), the same in all runs that "
                "are to be compared");
  if (resume && exact_) {  // what decides bits comes from the checkpoint where nothing is asked for
    const auto& saved = resume->state.identity;
    if (host_.options.micro_batch_rows == 0)
      limits_.rows = saved.value("micro_batch_rows", limits_.rows);
    if (host_.options.micro_batch_tokens == 0)
      limits_.tokens = saved.value("micro_batch_tokens", limits_.tokens);
  }
  state_.total_steps = plan_.steps();
  state_.identity = identity(started_from);
  if (resume) {
    check_same_run(resume->state.identity, state_.identity, resume->path);
    state_ = resume->state;
    saved_step_ = state_.step;
    if (exact_)
      for (const auto& split : state_.splits) limits_.rows = split.at("micro_batch_rows");
  }
}

MicroBatchLimits TrainingRun::default_limits() const {
  int64_t tokens = host_.options.micro_batch_tokens;
  if (tokens == 0) {
    // In mode exact the limit is part of the run, so it does not ask the devices.
    const bool cuda = !exact_ && std::any_of(host_.devices.begin(), host_.devices.end(),
                                             [](c10::Device device) { return device.is_cuda(); });
    const int64_t budget = cuda ? int64_t{8} << 30 : int64_t{3} << 29;
    tokens =
        std::clamp<int64_t>(budget / host_.text.model()->activation_bytes_per_token(), 512, 65536);
  }
  return {host_.options.micro_batch_rows, tokens};
}

Json TrainingRun::identity(const std::string& started_from) const {
  const auto& o = host_.options;
  Json json = {{"mode", o.mode},
               {"task", host_.text.task()},
               {"batch_size", o.batch_size},
               {"epochs", o.epochs},
               {"learning_rate", o.learning_rate},
               {"lr_scheduler", o.lr_scheduler},
               {"warmup_steps", o.warmup_steps},
               {"weight_decay", o.weight_decay},
               {"max_grad_norm", o.max_grad_norm},
               {"max_length", host_.text.max_length()},
               {"seed", o.seed},
               {"shuffle", o.shuffle},
               {"data", digest_of(rows_)},
               {"model", started_from}};
  if (exact_) {
    json["logical_shards"] = shards_;
    json["micro_batch_rows"] = limits_.rows;
    json["micro_batch_tokens"] = limits_.tokens;
  }
  return json;
}

TrainingRun::Prepared TrainingRun::prepare(GlobalBatch batch, MicroBatchLimits limits,
                                           const std::vector<double>& speeds) const {
  Prepared prepared;
  prepared.batch = std::move(batch);
  prepared.limits = limits;
  for (int64_t row : prepared.batch.rows) prepared.targets += double(rows_.targets[size_t(row)]);
  prepared.shares = deal(prepared.batch, plan_.lengths(), shards_, limits, speeds);
  for (const auto& share : prepared.shares) {
    prepared.packed.emplace_back();
    for (const auto& micro : share) prepared.packed.back().push_back(pack_rows(rows_, micro));
  }
  return prepared;
}

StepWork TrainingRun::work_of(const Prepared& prepared) const {
  return {
      .forward =
          [this, &prepared](const Worker& worker, size_t shard, size_t m) {
            auto& model = static_cast<Model&>(worker.module);
            const auto packed = prepared.packed[shard][m].to(worker.device);
            const auto losses = model.target_losses(
                model.forward(packed, {host_.options.seed, prepared.batch.step}), packed.labels);
            return MicroLoss{losses.sum(), losses.detach().to(at::kDouble).sum().item<double>()};
          },
      .slots = [&prepared](size_t shard, size_t m) { return prepared.shares[shard][m].slots; },
      .rows =
          [this, &prepared](int shard, size_t m) {
            return describe_rows(
                rows_, shard < 0 ? prepared.batch.rows : prepared.shares[size_t(shard)][m].rows);
          }};
}

// Makes micro-batches of half as many rows after running out of memory; false when that is not
// wanted or not possible.
bool TrainingRun::split(const Prepared& prepared, const OutOfMemory& error) {
  const auto& wish = host_.options.on_oom;
  if (wish == "stop") return false;
  if (exact_ && wish != "split")
    throw OutOfMemory(
        error.where(), error.message(),
        "in mode exact smaller micro-batches change bits: start anew with smaller "
        ".micro_batch_tokens (--micro-batch-tokens) or more .logical_shards (--logical-shards); or "
        ".on_oom = \"split\" (--on-oom split) to go on all the same, which is recorded");
  size_t largest = 0;
  for (const auto& share : prepared.shares)
    for (const auto& micro : share) largest = std::max(largest, micro.rows.size());
  if (largest <= 1) return false;
  limits_.rows = int64_t(largest + 1) / 2;
  state_.splits.push_back({{"step", prepared.batch.step}, {"micro_batch_rows", limits_.rows}});
  log_warning(error.message() + ": repeating the step with micro-batches of at most " +
              std::to_string(limits_.rows) + (limits_.rows == 1 ? " row" : " rows"));
  return true;
}

StepOutput TrainingRun::take_step(Prepared& prepared) {
  const auto& o = host_.options;
  if (prepared.targets == 0 && !std::exchange(warned_no_targets_, true))
    log_warning("step " + std::to_string(prepared.batch.step + 1) +
                ": none of its rows has a target; such steps contribute nothing");
  for (;;) {
    StepInput input{.exact = exact_,
                    .step = prepared.batch.step,
                    .seed = o.seed,
                    .targets = prepared.targets,
                    .learning_rate = schedule_.at(prepared.batch.step),
                    .max_grad_norm = o.max_grad_norm};
    for (const auto& share : prepared.shares) input.micro_batches.push_back(share.size());
    const AdamWOptions adamw{.weight_decay = {o.weight_decay, 0.0}};
    try {
      return run_step(host_.replicas, input, adamw, work_of(prepared));
    } catch (const OutOfMemory& error) {
      if (!split(prepared, error)) throw;
    }
    prepared = prepare(std::move(prepared.batch), limits_, balance_.speeds());
  }
}

void TrainingRun::report(const Prepared& prepared, const StepOutput& output, bool now) {
  state_.line_loss_sum += output.loss_sum;
  state_.line_targets += prepared.targets;
  state_.line_rows += int64_t(prepared.batch.rows.size());
  state_.line_tokens += prepared.batch.tokens;
  host_.progress({Progress::Phase::train, state_.step, plan_.steps(), state_.samples});
  if (!now) return;
  StepEvent line;
  line.step = state_.step;
  line.epoch = state_.epoch;
  line.loss = state_.line_loss_sum / std::max(1.0, state_.line_targets);
  line.learning_rate = schedule_.at(prepared.batch.step);
  line.grad_norm = output.grad_norm;
  line.rows = state_.line_rows;
  line.tokens = state_.line_tokens;
  line.total_steps = plan_.steps();
  host_.emit(line);
  state_.loss_sum += state_.line_loss_sum;
  state_.targets += state_.line_targets;
  state_.line_loss_sum = state_.line_targets = 0;
  state_.line_rows = state_.line_tokens = 0;
}

void TrainingRun::save_checkpoint() {
  if (host_.options.output.empty() || saved_step_ == state_.step) return;
  // Those of a run that this one replaces would be taken for newer ones.
  if (saved_step_ < 0) folder_.remove_checkpoints();
  const std::string path = folder_.checkpoint(state_.step);
  save_to(path, /*overwrite=*/true,
          {.files = {{RunState::file_name, state_.to_text()}},
           .tensors = {{"optimizer.safetensors", optimizer_state(host_.replicas)}}});
  saved_step_ = state_.step;
  if (host_.options.save_total_limit > 0) folder_.keep_newest(host_.options.save_total_limit);
}

void TrainingRun::save_to(const std::string& path, bool overwrite,
                          const TextModel::Extra& extra) const {
  try {
    failpoint("save");
    host_.text.save(path, overwrite, extra);
  } catch (...) {
    rethrow_at("train.save", path);
  }
  host_.emit(SavedEvent{path});
}

std::string TrainingRun::save_model() {
  const auto& o = host_.options;
  if (o.output.empty()) return "";
  if (saved_step_ < 0) folder_.remove_checkpoints();
  state_.finished = state_.step == plan_.steps();
  save_to(o.output, o.overwrite || saved_step_ >= 0,
          {.files = {{RunState::file_name, state_.to_text()}}, .tensors = {}});
  return o.output;
}

void TrainingRun::announce(const Model& model) const {
  StartEvent start;
  start.devices = names_of(host_.devices);
  start.model = host_.options.model;
  for (const auto& parameter : model.parameters()) {
    start.parameters += parameter.numel();
    if (parameter.requires_grad()) start.trainable += parameter.numel();
  }
  start.rows = plan_.rows();
  start.steps = plan_.steps();
  start.mode = host_.options.mode;
  start.logical_shards = exact_ ? shards_ : 0;
  start.resumed_step = state_.step;
  start.new_tensors = host_.text.new_tensors();
  host_.emit(start);
  if (state_.finished) log_info("the run is finished: nothing is left to do");
}

TrainResult TrainingRun::run() {
  const auto& o = host_.options;
  TrainResult result;
  const auto steps = plan_.steps();
  auto& model = *host_.text.model();
  announce(model);
  const DeterministicKernels deterministic(exact_, host_.devices);
  model.train();
  struct Mode {  // the model is handed back as from_pretrained gives it
    Model& model;
    ~Mode() { model.eval(); }
  } mode{model};

  // Made ahead with what is known now; when limits or speeds have changed, made anew in its turn.
  Loader<Prepared> loader(
      steps,
      [this, limits = limits_](int64_t step) {
        try {
          failpoint("step.data", int(step));
          return prepare(plan_.batch(step), limits, {});
        } catch (...) {
          rethrow_at("train.data", "step " + std::to_string(step + 1));
        }
      },
      /*depth=*/2, state_.step);
  bool stopping = false;
  try {
    while (!stopping && !state_.finished) {
      auto prepared = loader.next();
      if (!prepared) break;
      const auto speeds = balance_.speeds();
      if (!speeds.empty() || prepared->limits.rows != limits_.rows)
        *prepared = prepare(std::move(prepared->batch), limits_, speeds);
      const auto output = take_step(*prepared);

      state_.step = prepared->batch.step + 1;
      state_.samples = plan_.samples_before(state_.step);
      state_.epoch = double(state_.samples) / double(plan_.rows());
      stopping = host_.stop;
      const bool last = stopping || state_.step == steps;
      report(*prepared, output, last || state_.step % o.logging_steps == 0);
      if (!exact_) {
        std::vector<int64_t> tokens;
        for (const auto& share : prepared->shares) {
          tokens.push_back(0);
          for (const auto& micro : share) tokens.back() += micro.tokens;
        }
        balance_.add(tokens, output.seconds);
        if (const auto advice = balance_.advice(); !advice.empty()) log_info(advice);
      }
      const bool epoch_ends = state_.step % plan_.steps_per_epoch() == 0;
      if (host_.evaluate && !stopping && (epoch_ends || last))
        host_.emit(host_.evaluate(state_.step));
      const bool due = o.save_steps > 0 && (last || state_.step % o.save_steps == 0);
      if (due || (stopping && state_.step < steps)) save_checkpoint();
    }
  } catch (...) {
    // What was done is not lost where checkpoints are wanted; the error is the one that counts.
    if (o.save_steps > 0 && state_.step > 0) try {
        save_checkpoint();
      } catch (const std::exception& e) {
        log_warning(std::string("no last checkpoint: ") + e.what());
      }
    throw;
  }
  result.steps = state_.step;
  result.stopped = state_.step < steps;
  result.loss = state_.targets > 0 ? state_.loss_sum / state_.targets : 0;
  result.path = state_.finished ? o.output : save_model();
  return result;
}

}  // namespace yoke
