// The options of one sub-command, on top of CLI11, which only arguments.cpp and parse.cpp see.
//
//   Arguments arguments(*app.add_subcommand("evaluate"));
//   arguments.group("Model and data");
//   arguments.text("--model", options.model, "DIR|NAME", "A Hugging Face folder …").required();
//
// Names are given as "--epochs,--num-train-epochs": the first is the option, the rest are aliases.
// Help texts are documentation: docs/cli.md shows them as they are.
#pragma once

#include <yoke/train/options.h>

#include <cstdint>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace yoke::cli {

// Wrong usage: exit status 2. what() is the whole line.
class UsageError : public std::runtime_error {
 public:
  // `hint` says what to write instead; neither ends with a full stop.
  explicit UsageError(const std::string& message, const std::string& hint = "");
};

// What a real number may be.
enum class Real { positive, not_negative };

class Arguments {
 public:
  explicit Arguments(CLI::App& app) : app_(app) {}

  // The head and the end of the help: what the command does, how it is written, an example.
  void describe(const std::string& summary, const std::string& usage, const std::string& example);

  // Options that follow stand under this title in the help.
  void group(const std::string& title) { group_ = title; }

  // A handle to mark what was just declared.
  class Declared {
   public:
    explicit Declared(CLI::Option* option) : option_(option) {}
    void required();
    // Replaces the default that the help shows.
    Declared& shows_default(const std::string& text);

   private:
    CLI::Option* option_;
  };

  // Text; empty is refused.
  Declared text(const std::string& names, std::string& value, const std::string& placeholder,
                const std::string& help);
  // Text that may be empty or begin with dashes.
  Declared free_text(const std::string& names, std::optional<std::string>& value,
                     const std::string& placeholder, const std::string& help);
  Declared choice(const std::string& names, std::string& value,
                  const std::vector<std::string>& choices, const std::string& help);
  // A whole number of at least `minimum`.
  Declared whole(const std::string& names, int64_t& value, int64_t minimum,
                 const std::string& help);
  Declared whole(const std::string& names, uint64_t& value, const std::string& help);
  Declared real(const std::string& names, double& value, Real range, const std::string& help);
  // `value` becomes `set` when the option is there.
  Declared flag(const std::string& names, bool& value, const std::string& help, bool set = true);

 private:
  Declared mark(CLI::Option* option, const std::string& placeholder);

  CLI::App& app_;
  std::string group_;
};

// Options that several sub-commands have, declared in one place.
void declare_devices(Arguments& arguments, TrainerOptions& options);
void declare_max_length(Arguments& arguments, TrainerOptions& options);
void declare_columns(Arguments& arguments, TrainerOptions& options, bool labels);

// Options of the Hugging Face Trainer whose meaning depends on the number of devices or that yoke
// says otherwise: throws UsageError with what to write when `given` (canonical name -> value) holds
// one of them.
bool is_refused(const std::string& name);
void refuse_foreign_options(const std::map<std::string, std::string>& given);

}  // namespace yoke::cli
