#include <fmt/format.h>
#include <yoke/core/suggest.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "cli/commands.h"

namespace yoke::cli {
namespace {

constexpr size_t help_width = 90;
constexpr size_t help_indent = 30;
constexpr char no_break = '\x1f';  // stands for a space where a line must not end

// Width on a terminal of UTF-8 text without wide or combining characters, as help texts are.
size_t width_of(const std::string& text) {
  return size_t(std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

// `text` in lines of at most help_width that begin in column `indent`, behind `head` where that is
// short enough.
std::string wrapped(const std::string& head, const std::string& text, size_t indent) {
  std::string out;
  std::string line = head;
  if (!head.empty() && width_of(head) + 2 > indent) {
    out = head + "\n";
    line.clear();
  }
  line += std::string(indent - width_of(line), ' ');
  bool fresh = true;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find(' ', begin), text.size());
    const std::string word = text.substr(begin, end - begin);
    begin = end + 1;
    if (!fresh && width_of(line) + 1 + width_of(word) > help_width) {
      out += line + "\n";
      line = std::string(indent, ' ');
      fresh = true;
    }
    if (!fresh) line += ' ';
    line += word;
    fresh = false;
  }
  out += line + "\n";
  std::replace(out.begin(), out.end(), no_break, ' ');
  return out;
}

std::string option_head(const CLI::Option& option) {
  std::string head = "  --" + option.get_lnames().front();
  if (!option.get_snames().empty())
    head = "  -" + option.get_snames().front() + ", " + head.substr(2);
  if (!option.get_type_name().empty()) head += " " + option.get_type_name();
  return head;
}

// What follows the description: whether it must be given, its default, its other names.
std::string option_notes(const CLI::Option& option) {
  std::vector<std::string> notes;
  if (option.get_required()) notes.push_back("required");
  if (!option.get_default_str().empty())
    notes.push_back("default:" + std::string(1, no_break) + option.get_default_str());
  const auto& names = option.get_lnames();
  if (names.size() > 1) {
    std::string also = "also ";
    for (size_t i = 1; i < names.size(); ++i) also += (i > 1 ? ", --" : "--") + names[i];
    notes.push_back(also);
  }
  return notes.empty() ? "" : " [" + fmt::format("{}", fmt::join(notes, "; ")) + "]";
}

// Not CLI11's own layout, which differs between its versions: docs/cli.md shows these texts, and a
// test compares them. A description is a summary, a line break and the usage.
class Formatter : public CLI::FormatterBase {
 public:
  std::string make_help(const CLI::App* app, std::string, CLI::AppFormatMode) const override {
    const auto [summary, usage] = split_description(*app);
    std::string out = wrapped("", summary, 0) + "\nUsage: " + usage + "\n";
    const auto commands = app->get_subcommands([](const CLI::App*) { return true; });
    if (!commands.empty()) out += "\nCommands\n";
    for (const auto* command : commands)
      out += wrapped("  " + command->get_name(), split_description(*command).first, 14);
    for (const auto& group : app->get_groups()) {
      out += "\n" + group + "\n";
      for (const auto* option : options_in(*app, group))
        out += wrapped(option_head(*option), option->get_description() + option_notes(*option),
                       help_indent);
    }
    return out + app->get_footer();
  }

 private:
  static std::pair<std::string, std::string> split_description(const CLI::App& app) {
    const std::string text = app.get_description();
    const size_t end = text.find('\n');
    return {text.substr(0, end), text.substr(end + 1)};
  }

  static std::vector<const CLI::Option*> options_in(const CLI::App& app, const std::string& group) {
    return app.get_options([&](const CLI::Option* o) { return o->get_group() == group; });
  }
};

std::vector<std::string> long_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const auto* option : app.get_options())
    for (const auto& name : option->get_lnames()) names.push_back("--" + name);
  return names;
}

// "--learning_rate" -> "--learning-rate": the Hugging Face Trainer takes both.
std::string with_dashes(std::string name) {
  std::replace(name.begin(), name.end(), '_', '-');
  return name;
}

// The command line of the program: its sub-commands and what they fill.
struct Program {
  CLI::App app{
      "Fine-tune, evaluate and run Hugging Face models on any devices: the same numbers and files "
      "on a CPU, on one GPU and on eight\nyoke COMMAND [options]",
      "yoke"};
  TrainCommand train;
  EvaluateCommand evaluate;
  PredictCommand predict;

  Program() {
    app.formatter(std::make_shared<Formatter>());
    app.set_help_flag("--help,-h", "Show this help")->group("Options");
    app.add_flag_callback(
           "--version", [] {}, "Show the version of yoke and of LibTorch")
        ->group("Options");
    app.footer(
        "\n"
        "yoke COMMAND --help shows the options of a command.\n"
        "\n"
        "Exit status: 0 done, 1 failed, 2 wrong usage, 130 interrupted after saving (143 for\n"
        "SIGTERM).\n"
        "\n"
        "Example\n"
        "  yoke train --model bert-base-uncased --train train.csv --eval dev.csv --output out\n"
        "  yoke evaluate --model out --data dev.csv --devices 2xcpu\n"
        "  yoke predict --model out --text \"a gripping film\"\n");
    add("train", train);
    add("evaluate", evaluate);
    add("predict", predict);
  }

  std::vector<CLI::App*> commands() {
    return app.get_subcommands([](CLI::App*) { return true; });
  }

 private:
  template <class Options>
  void add(const char* name, Options& command) {
    CLI::App& sub = *app.add_subcommand(name);
    sub.formatter(app.get_formatter());
    Arguments arguments(sub);
    declare(arguments, command);
    sub.set_help_flag("--help,-h", "Show this help")->group("Output");
  }
};

[[noreturn]] void refuse_word(const CLI::App& command, const std::vector<CLI::App*>& commands,
                              const std::string& word, const std::string& name) {
  const std::string all = "yoke " + command.get_name() + " --help lists the options";
  if (name.empty() || name[0] != '-')
    throw UsageError(fmt::format("unexpected argument \"{}\" ({})", word, all));
  std::string text = "unknown option " + name;
  for (const auto* other : commands)
    if (other != &command && other->get_option_no_throw(name) != nullptr)
      throw UsageError(fmt::format("{} of yoke {}: it belongs to yoke {} ({})", text,
                                   command.get_name(), other->get_name(), all));
  const std::string near = nearest_name(name, long_names(command));
  throw UsageError(text + (near.empty() ? " (" + all + ")" : ", did you mean " + near + "?"));
}

// Turns the words behind a sub-command into "--name", "value" pairs that CLI11 cannot misread:
// "--learning_rate=1e-4" becomes "--learning-rate", "1e-4", aliases become the option they stand
// for, and each value stands behind a "=" (see value_of). Refuses unknown, doubled and valueless
// options.
std::vector<std::string> canonical_words(const CLI::App& command,
                                         const std::vector<CLI::App*>& commands,
                                         const std::vector<std::string>& words) {
  std::vector<std::string> out;
  std::map<std::string, std::string> given;
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    const size_t equals = word.starts_with("--") ? word.find('=') : std::string::npos;
    std::string name = with_dashes(word.substr(0, equals));
    const bool refused = is_refused(name);
    const auto* option = command.get_option_no_throw(name);
    if (!name.starts_with("--") || (option == nullptr && !refused))
      refuse_word(command, commands, word, name);
    if (option != nullptr) name = "--" + option->get_lnames().front();
    if (option != nullptr && option->get_items_expected_max() == 0) {
      if (equals != std::string::npos)
        throw UsageError(fmt::format("{} takes no value", name), name);
      if (given.emplace(name, "").second) out.push_back(name);
      continue;
    }
    std::string value;
    if (equals != std::string::npos) {
      value = word.substr(equals + 1);
    } else {
      // A value that is itself an option of this command means that the value was forgotten, unless
      // any text may stand here.
      const bool any_text = name == "--text" || name == "--text-pair";
      if (option != nullptr && option->get_type_name().starts_with('[') &&
          (i + 1 == words.size() || words[i + 1].starts_with("--"))) {
        // "--resume" alone says something, too
      } else if (i + 1 == words.size() ||
                 (!any_text && words[i + 1].starts_with("--") &&
                  command.get_option_no_throw(
                      with_dashes(words[i + 1].substr(0, words[i + 1].find('=')))) != nullptr)) {
        throw UsageError(fmt::format("{} needs a value{}", word,
                                     i + 1 == words.size() ? "" : " before " + words[i + 1]));
      } else {
        value = words[++i];
      }
    }
    if (!given.emplace(name, value).second)
      throw UsageError(fmt::format("{} is given twice", name));
    if (!refused) out.insert(out.end(), {name, "=" + value});
  }
  refuse_foreign_options(given);
  return out;
}

}  // namespace

Command parse(const std::vector<std::string>& arguments) {
  Program program;
  const auto commands = program.commands();
  if (arguments.empty())
    throw UsageError("no command: train, evaluate or predict (yoke --help explains them)");
  const std::string& first = arguments[0];
  if (first == "--help" || first == "-h") return Message{program.app.help()};
  if (first == "--version") return Message{version_text()};
  std::vector<std::string> names;
  for (const auto* command : commands) names.push_back(command->get_name());
  const auto found = std::find(names.begin(), names.end(), first);
  if (found == names.end()) {
    const std::string near = nearest_name(first, names);
    throw UsageError(fmt::format(
        "unknown {} {}{}", first[0] == '-' ? "option" : "command", first,
        near.empty() ? fmt::format(", the commands are {} (yoke --help)", join_names(names))
                     : ", did you mean " + near + "?"));
  }
  CLI::App& command = *commands[size_t(found - names.begin())];
  std::vector<std::string> words(arguments.begin() + 1, arguments.end());
  for (const auto& word : words)
    if (word == "--help" || word == "-h") return Message{command.help()};
  words = canonical_words(command, commands, words);
  std::reverse(words.begin(), words.end());  // as CLI11 wants them
  try {
    command.parse(words);
  } catch (const CLI::Error& e) {
    throw UsageError(fmt::format("{} (yoke {} --help explains it)", e.what(), first));
  }
  if (first == "train") {
    check(program.train);
    return program.train;
  }
  if (first == "evaluate") return program.evaluate;
  check(program.predict);
  return program.predict;
}

std::string version_text() {
  return fmt::format("yoke {} (LibTorch {})\n", YOKE_VERSION, YOKE_TORCH_VERSION);
}

std::string describe_options() {
  Program program;
  std::string out;
  for (const auto* command : program.commands()) {
    for (const auto* option : command->get_options()) {
      out += command->get_name();
      for (const auto& name : option->get_lnames()) out += " --" + name;
      if (!option->get_type_name().empty()) out += " " + option->get_type_name();
      if (option->get_required()) out += " (required)";
      if (!option->get_default_str().empty()) out += " = " + option->get_default_str();
      out += "\n";
    }
  }
  return out;
}

}  // namespace yoke::cli
