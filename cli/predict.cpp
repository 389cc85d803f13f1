// yoke predict: label and score of a text, or of every row of a file.
#include <fmt/format.h>
#include <yoke/core/file.h>
#include <yoke/train/trainer.h>

#include <filesystem>

#include "cli/commands.h"
#include "cli/progress.h"

namespace yoke::cli {
namespace {

namespace fs = std::filesystem;

// How the file of predictions is written, by its extension.
enum class Format { csv, tsv, json_lines };

Format format_of(const std::string& path) {
  const std::string extension = fs::path(path).extension().string();
  if (extension == ".csv") return Format::csv;
  if (extension == ".tsv") return Format::tsv;
  if (extension == ".jsonl" || extension == ".ndjson" || extension == ".json")
    return Format::json_lines;
  throw UsageError(
      fmt::format("--output {}: the format goes by the extension, and this one is unknown", path),
      "a name that ends in .csv, .tsv or .jsonl");
}

// RFC 4180 for commas. A TSV of yoke has no quoting, so that a separator inside a label becomes a
// space there.
std::string field(const std::string& text, Format format) {
  if (format == Format::tsv) {
    std::string out = text;
    for (char& c : out)
      if (c == '\t' || c == '\n' || c == '\r') c = ' ';
    return out;
  }
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string out = "\"";
  for (const char c : text) out += c == '"' ? "\"\"" : std::string(1, c);
  return out + "\"";
}

// The predictions as the text of a file, made row by row.
class PredictionFile {
 public:
  explicit PredictionFile(Format format) : format_(format) {}

  void add(const PredictEvent& e) {
    if (format_ == Format::json_lines) {
      Json json = to_json(e);
      json.erase("event");
      text_ += json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
      return;
    }
    const char separator = format_ == Format::csv ? ',' : '\t';
    if (e.of_tokens) return add_tokens(e, separator);
    if (text_.empty())
      text_ = e.regression ? line({"row", "value"}, separator)
                           : line({"row", "label", "score"}, separator);
    const std::string row = fmt::format("{}", e.row);
    const std::string score = fmt::format("{}", e.prediction.score);
    text_ += e.regression ? line({row, score}, separator)
                          : line({row, field(e.prediction.label, format_), score}, separator);
  }

  const std::string& text() const { return text_; }

 private:
  // A line a word; a word without a label has two empty fields.
  void add_tokens(const PredictEvent& e, char separator) {
    if (text_.empty()) text_ = line({"row", "token", "label", "score"}, separator);
    for (const auto& t : e.prediction.tokens)
      text_ +=
          line({fmt::format("{}", e.row), field(t.token, format_),
                t.label ? field(*t.label, format_) : "", t.label ? fmt::format("{}", t.score) : ""},
               separator);
  }
  static std::string line(const std::vector<std::string>& fields, char separator) {
    return fmt::format("{}\n", fmt::join(fields, std::string(1, separator)));
  }

  Format format_;
  std::string text_;
};

// What a person reads of a row: label and score, a line for each word where words have labels; the
// row first in a file of rows.
std::vector<std::string> lines_of(const PredictEvent& e, bool with_row) {
  const std::string row = with_row ? fmt::format("{}\t", e.row) : "";
  const Prediction& p = e.prediction;
  std::vector<std::string> lines;
  for (const auto& t : p.tokens)
    lines.push_back(fmt::format(
        "{}{}\t{}", row, field(t.token, Format::tsv),
        t.label ? fmt::format("{}\t{:.6f}", field(*t.label, Format::tsv), t.score) : "\t"));
  if (!e.of_tokens)
    lines.push_back(fmt::format("{}{}{:.6f}", row,
                                e.regression ? "" : field(p.label, Format::tsv) + "\t", p.score));
  return lines;
}

// Before the work, not after it.
void check_output(const PredictCommand& command) {
  const fs::path path = command.output_file;
  std::error_code code;
  const fs::path parent = fs::absolute(path, code).parent_path();
  if (fs::is_directory(path, code))
    throw UsageError(fmt::format("--output {}: is a folder, predict writes a file", path.string()),
                     "--output " + (path / "predictions.csv").string());
  if (!fs::is_directory(parent, code))
    throw UsageError(
        fmt::format("--output {}: there is no folder {}", path.string(), parent.string()));
  if (fs::equivalent(path, command.data_file, code) && !code)
    throw UsageError(fmt::format("--output {}: is the file that --data reads", path.string()),
                     "another name");
}

}  // namespace

void declare(Arguments& arguments, PredictCommand& command) {
  TrainerOptions& o = command.options;
  arguments.describe(
      "Label a text or its words, or every row of a file, in the order of the file",
      "yoke predict --model DIR|NAME (--text TEXT [--text-pair TEXT] | --data FILE) [options]",
      "  yoke predict --model out --text \"a gripping film\"\n"
      "  yoke predict --model out --data new.csv --output labels.csv\n");

  arguments.group("Model and data");
  arguments
      .text("--model,--model-name-or-path", o.model, "DIR|NAME",
            "A folder that yoke or transformers saved, or a name in the Hugging Face cache")
      .required();
  arguments.free_text("--text", command.text, "TEXT",
                      "The text itself; a model that labels words cuts it at white space");
  arguments.free_text("--text-pair", command.text_pair, "TEXT",
                      "The second text, for models of pairs");
  arguments.text("--data,--test-file", command.data_file, "FILE",
                 "Rows to label: .csv, .tsv, .jsonl or .parquet; labels in it are not read");
  declare_max_length(arguments, o);

  arguments.group("Devices and memory");
  declare_devices(arguments, o);
  arguments.whole("--batch-size", o.batch_size, 1,
                  "Rows that are computed at once, over all devices");

  declare_columns(arguments, o, false);

  arguments.group("Output");
  arguments
      .text("--output", command.output_file, "FILE",
            "Write the predictions into a file, by its extension .csv, .tsv or .jsonl; it appears "
            "complete, or not at all")
      .shows_default(
          "standard output, label and score a line, the row first for a file; for words "
          "the word before its label");
  arguments.flag("--json", command.json,
                 "Events on standard output, one JSON object a line: predict with row, label, "
                 "score and logits, or with row, tokens, labels and scores");
}

void check(const PredictCommand& command) {
  const bool file = !command.data_file.empty();
  if (!command.text && !file)
    throw UsageError("nothing to predict", "--text \"a gripping film\" or --data FILE");
  if (command.text && file) throw UsageError("--text and --data exclude each other", "one of them");
  const TextOptions& d = command.options.data;
  const TextOptions none;
  if (command.text && (!d.text_column.empty() || !d.text_pair_column.empty() || d.no_header ||
                       d.encoding != none.encoding || d.skip_bad_rows))
    throw UsageError("the options of how to read a file need --data, and --text is given");
  if (command.text_pair && !command.text)
    throw UsageError("--text-pair needs --text",
                     file ? "--text-pair-column C with --data" : "--text TEXT");
  if (!command.output_file.empty()) format_of(command.output_file);
}

int run(const PredictCommand& command, Console& console) {
  const bool to_file = !command.output_file.empty();
  if (to_file) check_output(command);
  PredictionFile file(to_file ? format_of(command.output_file) : Format::csv);
  int64_t rows = 0;
  ProgressMeter meter;
  TrainerOptions options = command.options;
  options.on_event = [&](const Event& event) {
    bool open = true;
    if (console.json()) open = console.event(to_json(event));
    if (const auto* e = std::get_if<PredictEvent>(&event)) {
      ++rows;
      if (to_file) {
        file.add(*e);
      } else if (!console.json()) {
        for (const auto& line : lines_of(*e, !command.text)) open = open && console.result(line);
      }
    }
    if (!open && !to_file) throw OutputClosed();
  };
  options.on_progress = [&](const Progress& progress) {
    meter.update(progress, std::chrono::steady_clock::now());
    if (console.has_bar()) console.show_bar(meter.bar());
  };

  Trainer trainer(std::move(options));
  if (command.text_pair) {
    trainer.predict(std::vector<std::string>{*command.text}, {*command.text_pair});
  } else if (command.text) {
    trainer.predict(std::vector<std::string>{*command.text});
  } else {
    trainer.predict(command.data_file);
  }
  console.remove_bar();
  if (!to_file) return exit_done;
  write_file_atomic(command.output_file, file.text(), "predict.save");
  if (console.json()) {
    console.event(to_json(SavedEvent{command.output_file}));
  } else {
    console.result(fmt::format("{} predictions in {}", rows, command.output_file));
  }
  return exit_done;
}

}  // namespace yoke::cli
