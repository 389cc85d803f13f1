// The sub-commands of the program: what the command line asks for as plain structs, and the
// functions that do it.
//
//   Command command = parse({"train", "--model", "bert", "--train", "train.csv"});
//
// parse() runs nothing and reads no file. One thread.
#pragma once

#include <yoke/train/options.h>

#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "cli/arguments.h"
#include "cli/console.h"

namespace yoke::cli {

// Exit statuses; an interrupted run that has saved ends with 128 + the number of the signal.
enum ExitStatus { exit_done = 0, exit_failed = 1, exit_usage = 2, exit_signal = 128 };

// --help, --version: text for standard output.
struct Message {
  std::string text;
};

struct TrainCommand {
  TrainerOptions options;
  std::string train_file;
  std::string eval_file;
  bool json = false;
  bool quiet = false;
};

struct EvaluateCommand {
  TrainerOptions options;
  std::string data_file;
  bool json = false;
};

struct PredictCommand {
  TrainerOptions options;
  std::optional<std::string> text;
  std::optional<std::string> text_pair;
  std::string data_file;
  std::string output_file;
  bool json = false;
};

using Command = std::variant<Message, TrainCommand, EvaluateCommand, PredictCommand>;

// Throws UsageError.
Command parse(const std::vector<std::string>& arguments);

// "yoke 0.1.0 (LibTorch 2.15.0)" and a line break.
std::string version_text();

// Every option of every sub-command with its aliases, placeholder and default, one a line: what
// tests/cli/options.golden freezes.
std::string describe_options();

// Runs a command and returns the exit status. Throws what the library throws.
int run(const TrainCommand& command, Console& console);
int run(const EvaluateCommand& command, Console& console);
int run(const PredictCommand& command, Console& console);

// parse() is made of these, one a sub-command, each in the file of its command: `declare` says
// which options exist, `check` looks at what only shows when all are known.
void declare(Arguments& arguments, TrainCommand& command);
void declare(Arguments& arguments, EvaluateCommand& command);
void declare(Arguments& arguments, PredictCommand& command);
void check(const TrainCommand& command);
void check(const PredictCommand& command);

}  // namespace yoke::cli
