// yoke train: fine-tune a model on a file and save it.
#include <fmt/format.h>
#include <yoke/train/trainer.h>

#include <cmath>
#include <csignal>

#include "cli/commands.h"
#include "cli/progress.h"
#include "cli/signals.h"

namespace yoke::cli {
namespace {

std::string scores_text(const EvaluateEvent& e) {
  const std::string entities = e.entities ? fmt::format("f1 {:.4f}  ", e.entities->f1) : "";
  return e.has_accuracy
             ? fmt::format("{}accuracy {:.4f}  loss {:.4f}", entities, e.accuracy, e.loss)
             : fmt::format("mse {:.4f}  loss {:.4f}", e.mse, e.loss);
}

// Shows a run: JSON lines or sentences on standard output, the bar or log lines on standard error.
class TrainView {
 public:
  explicit TrainView(Console& console) : console_(console) {}

  void show(const Event& event) {
    if (console_.json()) print(to_json(event));
    std::visit([this](const auto& e) { on(e); }, event);
  }

  void show(const Progress& progress) {
    const auto now = std::chrono::steady_clock::now();
    // Evaluation between two epochs takes time of its own: the speed is measured anew behind it.
    if (progress.phase != phase_) meter_.start(now);
    phase_ = progress.phase;
    meter_.update(progress, now);
    if (console_.has_bar()) console_.show_bar(meter_.bar());
  }

 private:
  void on(const StartEvent& e) {
    steps_ = e.steps;
    meter_.start(std::chrono::steady_clock::now());
    console_.log(fmt::format(
        "{}: {} parameters, {} of them trained; {} rows, {} steps{}{}", e.model, e.parameters,
        e.trainable, e.rows, e.steps,
        e.logical_shards ? fmt::format("; exact, {} logical shards", e.logical_shards) : "",
        e.resumed_step ? fmt::format("; going on after step {}", e.resumed_step) : ""));
  }

  void on(const StepEvent& e) {
    rows_ += e.rows;
    meter_.set_loss(e.loss);
    show(Progress{Progress::Phase::train, e.step, steps_, rows_});
    // JSON lines say the same; a bar shows it too.
    if (console_.json() || console_.has_bar()) return;
    console_.log(fmt::format("step {}/{}  loss {:.4f}  learning rate {:.2e}  {}", e.step, steps_,
                             e.loss, e.learning_rate, meter_.speed()));
  }

  void on(const EvaluateEvent& e) {
    if (!console_.json())
      print(fmt::format("step {}: {}  rows {}", e.step, scores_text(e), e.rows));
  }

  void on(const PredictEvent&) {}

  void on(const SavedEvent& e) {
    console_.remove_bar();
    if (!console_.json()) print("saved to " + e.path);
  }

  template <class Line>
  void print(const Line& line) {
    if (console_.output_error() != 0) return;
    bool open = false;
    if constexpr (std::is_same_v<Line, Json>) {
      open = console_.event(line);
    } else {
      open = console_.result(line);
    }
    // What a run is for is the folder that it saves, so it goes on.
    if (!open) console_.warning("standard output cannot be written to any more, training goes on");
  }

  Console& console_;
  ProgressMeter meter_;
  Progress::Phase phase_ = Progress::Phase::train;
  int64_t steps_ = 0;
  int64_t rows_ = 0;
};

}  // namespace

void declare(Arguments& arguments, TrainCommand& command) {
  TrainerOptions& o = command.options;
  o.output = "trainer_output";
  arguments.describe(
      "Fine-tune a model on a file of texts with labels and save it as a Hugging Face folder",
      "yoke train --model DIR|NAME --train FILE [options]",
      "  yoke train --model bert-base-uncased --train train.csv --eval dev.csv --output out\n"
      "\n"
      "  reads the columns text and label of both files (or what they are called there), trains\n"
      "  three epochs in batches of 32, evaluates after each, and saves the folder out, which\n"
      "  transformers reads too.\n");

  arguments.group("Model and data");
  arguments
      .text("--model,--model-name-or-path", o.model, "DIR|NAME",
            "A Hugging Face model folder, or a name in the Hugging Face cache")
      .required();
  arguments
      .text("--train,--train-file", command.train_file, "FILE",
            "Rows to train on: .csv, .tsv, .jsonl or .parquet")
      .required();
  arguments.text("--eval,--validation-file", command.eval_file, "FILE",
                 "Rows to evaluate after each epoch and at the end");
  arguments
      .choice("--task", o.task, {"text-classification", "token-classification"},
              "What the model learns: text-classification (a label or a number a text) or "
              "token-classification (a label a word, from lists in .jsonl or .parquet)")
      .shows_default("that of the model's head, else text-classification");
  arguments.whole("--max-train-rows,--max-train-samples", o.max_train_rows, 1,
                  "Train on the first N rows only");

  arguments.group("Training");
  arguments.real("--epochs,--num-train-epochs", o.epochs, Real::positive,
                 "Passes over the rows; may be a fraction");
  arguments.whole("--batch-size", o.batch_size, 1,
                  "Rows of one step: the global batch, whatever the number of devices");
  arguments.real("--learning-rate", o.learning_rate, Real::not_negative,
                 "The highest learning rate of the schedule");
  arguments.choice("--lr-scheduler,--lr-scheduler-type", o.lr_scheduler,
                   {"linear", "cosine", "constant", "constant_with_warmup"},
                   "How the learning rate changes: linear, cosine, constant, constant_with_warmup");
  arguments.real("--warmup-steps", o.warmup_steps, Real::not_negative,
                 "Steps in which the learning rate rises from 0; below 1 a share of all steps");
  arguments.real("--weight-decay", o.weight_decay, Real::not_negative,
                 "AdamW's weight decay, not on biases and LayerNorm");
  arguments.real("--max-grad-norm", o.max_grad_norm, Real::not_negative,
                 "Clip gradients to this norm; 0 for no clipping");
  arguments.whole("--seed", o.seed, "Start of all random numbers: order, dropout, new head");
  arguments.flag("--no-shuffle", o.shuffle, "Keep the order of the file in every epoch", false);
  declare_max_length(arguments, o);

  arguments.group("Devices and memory");
  declare_devices(arguments, o);
  arguments
      .whole("--micro-batch-rows", o.micro_batch_rows, 1,
             "Most rows that a device computes at once: bounds memory, never changes the result")
      .shows_default("no limit");
  arguments.whole("--micro-batch-tokens", o.micro_batch_tokens, 1, "The same in tokens")
      .shows_default("chosen from the model's size");

  arguments
      .choice("--on-oom", o.on_oom, {"split", "stop"},
              "Out of memory: split (halve the micro-batches and repeat the step) or stop")
      .shows_default("split; in mode exact, where splitting changes bits, stop");
  arguments.choice("--balance", o.balance, {"tokens", "speed"},
                   "Give every device as many tokens, or faster ones more (speed)");

  arguments.group("Reproducibility");
  arguments.choice("--mode", o.mode, {"fast", "exact"},
                   "fast: results of another number of devices within rounding; exact: bit for "
                   "bit the same on 1 to --logical-shards devices");
  arguments
      .whole("--logical-shards", o.logical_shards, 1,
             "Mode exact: parts of every batch, the same whatever the number of devices")
      .shows_default("8");

  arguments.group("Checkpoints");
  arguments.whole("--save-steps", o.save_steps, 1,
                  "Save a checkpoint every N steps and at the end; one is always saved on SIGINT "
                  "and SIGTERM");
  arguments.whole("--save-total-limit", o.save_total_limit, 1, "Keep the newest N checkpoints only")
      .shows_default("all");
  arguments.free_text("--resume,--resume-from-checkpoint", o.resume, "[DIR]",
                      "Go on from the newest complete checkpoint in --output, or from DIR; on any "
                      "devices");

  declare_columns(arguments, o, true);

  arguments.group("Output");
  arguments.text("--output,--output-dir", o.output, "DIR",
                 "Folder for the trained model; one that holds files is refused");
  arguments.flag("--overwrite,--overwrite-output-dir", o.overwrite,
                 "Replace what yoke wrote in the output folder, and nothing else");
  arguments.whole("--logging-steps", o.logging_steps, 1, "Report every N steps, and the last");
  arguments.flag("--json", command.json,
                 "Events on standard output, one JSON object a line: start, step, evaluate, saved");
  arguments.flag("--quiet", command.quiet, "No progress and no log on standard error, only errors");
}

void check(const TrainCommand& command) {
  const auto& o = command.options;
  if (o.mode == "fast" && o.logical_shards > 0)
    throw UsageError("--logical-shards is of mode exact", "--mode exact");
  if (o.mode == "exact" && o.balance == "speed")
    throw UsageError("--balance speed is of mode fast: in exact the shards are fixed",
                     "leaving it out");
  const double warmup = command.options.warmup_steps;
  if (warmup > 1 && warmup != std::floor(warmup))
    throw UsageError(
        fmt::format("--warmup-steps {}: above 1 it counts steps and must be whole", warmup),
        fmt::format("--warmup-steps {}", std::llround(warmup)));
}

int run(const TrainCommand& command, Console& console) {
  TrainView view(console);
  TrainerOptions options = command.options;
  options.on_event = [&view](const Event& event) { view.show(event); };
  options.on_progress = [&view](const Progress& progress) { view.show(progress); };
  Trainer trainer(std::move(options));

  StopOnSignal watch([&, told = false](int signal) mutable {
    trainer.stop();
    if (std::exchange(told, true)) return;
    console.log(fmt::format("{}: stopping after the step under way, then saving{}",
                            signal == SIGINT ? "interrupted" : "terminated",
                            signal == SIGINT ? " (Ctrl-C again ends at once)" : ""));
  });
  const TrainResult result = trainer.train(command.train_file, command.eval_file);
  console.remove_bar();
  if (!console.json() && console.output_error() == 0)
    console.result(fmt::format(
        "{} {} {} in {}, loss {:.4f}", result.stopped ? "stopped after" : "trained", result.steps,
        result.steps == 1 ? "step" : "steps", duration_text(result.seconds), result.loss));
  return result.stopped && watch.caught() != 0 ? exit_signal + watch.caught() : exit_done;
}

}  // namespace yoke::cli
