// yoke evaluate: loss, accuracy and entity scores of a model on a file.
#include <fmt/format.h>
#include <yoke/train/trainer.h>

#include "cli/commands.h"
#include "cli/progress.h"

namespace yoke::cli {

void declare(Arguments& arguments, EvaluateCommand& command) {
  TrainerOptions& o = command.options;
  arguments.describe(
      "Measure a model on a file of texts with labels: every row once, the same numbers on any "
      "devices",
      "yoke evaluate --model DIR|NAME --data FILE [options]",
      "  yoke evaluate --model out --data dev.csv\n");

  arguments.group("Model and data");
  arguments
      .text("--model,--model-name-or-path", o.model, "DIR|NAME",
            "A folder that yoke or transformers saved, or a name in the Hugging Face cache")
      .required();
  arguments
      .text("--data,--validation-file,--test-file", command.data_file, "FILE",
            "Rows to evaluate: .csv, .tsv, .jsonl or .parquet")
      .required();
  declare_max_length(arguments, o);

  arguments.group("Devices and memory");
  declare_devices(arguments, o);
  arguments.whole("--batch-size", o.batch_size, 1,
                  "Rows that are computed at once, over all devices");

  declare_columns(arguments, o, true);

  arguments.group("Output");
  arguments.flag("--json", command.json,
                 "The result on standard output as one JSON object, the event evaluate");
}

int run(const EvaluateCommand& command, Console& console) {
  ProgressMeter meter;
  TrainerOptions options = command.options;
  options.on_event = [&console](const Event& event) {
    if (console.json() && !console.event(to_json(event))) throw OutputClosed();
  };
  options.on_progress = [&](const Progress& progress) {
    meter.update(progress, std::chrono::steady_clock::now());
    if (console.has_bar()) console.show_bar(meter.bar());
  };
  Trainer trainer(std::move(options));
  const Metrics metrics = trainer.evaluate(command.data_file);
  console.remove_bar();
  if (console.json()) return exit_done;
  size_t width = 4;
  for (const auto& [name, value] : metrics.values) width = std::max(width, name.size());
  std::string table;
  for (const auto& [name, value] : metrics.values)
    table += fmt::format("{:<{}}  {:.6f}\n", name, width, value);
  table += fmt::format("{:<{}}  {}", "rows", width, metrics.rows);
  console.result(table);
  return exit_done;
}

}  // namespace yoke::cli
