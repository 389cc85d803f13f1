#include "cli/arguments.h"

#include <fmt/format.h>
#include <yoke/core/suggest.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <cmath>
#include <limits>

namespace yoke::cli {
namespace {

std::string first_name(const std::string& names) { return names.substr(0, names.find(',')); }

// The value behind the mark that canonical_words() puts before each, so that CLI11 sees neither
// brackets, braces, quotes nor dashes, which mean something to one or another of its versions.
std::string value_of(const CLI::results_t& given) { return given.front().substr(1); }

// Whether all of `text` is a number of type T, in decimal, whatever the locale.
template <class T>
bool read_number(const std::string& text, T& value) {
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  return error == std::errc() && stop == end && !text.empty();
}

// "5e-5" rather than the "5e-05" of printf.
std::string number_text(double value) {
  std::string text = fmt::format("{}", value);
  const size_t zero = text.find("e-0");
  if (zero != std::string::npos) text.erase(zero + 2, 1);
  return text;
}

template <class T>
T read_whole(const std::string& name, const std::string& text, T minimum) {
  const T maximum = std::numeric_limits<T>::max();
  T value = 0;
  if (read_number(text, value)) {
    if (value >= minimum) return value;
    throw UsageError(fmt::format("{} {}: must be at least {}", name, text, minimum));
  }
  double real = 0;
  if (read_number(text, real) && std::isfinite(real)) {
    if (real < double(minimum))
      throw UsageError(
          fmt::format("{} {}: must be a whole number of at least {}", name, text, minimum));
    if (real >= double(maximum))
      throw UsageError(fmt::format("{} {}: must be at most {}", name, text, maximum));
    // "1e3" and "64.0" name a whole number: say how to write it.
    if (real == std::floor(real) && real < 1e15)
      throw UsageError(fmt::format("{} {}: must be a whole number, in digits", name, text),
                       fmt::format("{} {}", name, int64_t(real)));
  }
  throw UsageError(fmt::format("{} \"{}\": must be a whole number, in digits", name, text));
}

double read_real(const std::string& name, const std::string& text, Real range) {
  double value = 0;
  if (!read_number(text, value) || !std::isfinite(value))
    throw UsageError(fmt::format("{} \"{}\": must be a number, such as 0.1 or 5e-5", name, text));
  if (range == Real::positive && !(value > 0))
    throw UsageError(fmt::format("{} {}: must be above 0", name, text));
  if (range == Real::not_negative && value < 0)
    throw UsageError(fmt::format("{} {}: must not be negative", name, text));
  return value;
}

}  // namespace

UsageError::UsageError(const std::string& message, const std::string& hint)
    : std::runtime_error(message + (message.ends_with('?') ? "" : ".") +
                         (hint.empty() ? "" : " Try: " + hint)) {}

void Arguments::describe(const std::string& summary, const std::string& usage,
                         const std::string& example) {
  app_.description(summary + "\n" + usage);
  app_.footer("\nExample\n" + example);
}

void Arguments::Declared::required() { option_->required(); }

Arguments::Declared& Arguments::Declared::shows_default(const std::string& text) {
  option_->default_str(text);
  return *this;
}

Arguments::Declared Arguments::mark(CLI::Option* option, const std::string& placeholder) {
  option->group(group_);
  option->type_name(placeholder);
  return Declared(option);
}

Arguments::Declared Arguments::text(const std::string& names, std::string& value,
                                    const std::string& placeholder, const std::string& help) {
  const std::string name = first_name(names);
  auto* option = app_.add_option(
      names,
      [name, &value](const CLI::results_t& given) {
        value = value_of(given);
        if (value.empty()) throw UsageError(name + " needs a value, this one is empty");
        return true;
      },
      help);
  if (!value.empty()) option->default_str(value);
  return mark(option, placeholder);
}

Arguments::Declared Arguments::free_text(const std::string& names,
                                         std::optional<std::string>& value,
                                         const std::string& placeholder, const std::string& help) {
  auto* option = app_.add_option(
      names,
      [&value](const CLI::results_t& given) {
        value = value_of(given);
        return true;
      },
      help);
  return mark(option, placeholder);
}

Arguments::Declared Arguments::choice(const std::string& names, std::string& value,
                                      const std::vector<std::string>& choices,
                                      const std::string& help) {
  const std::string name = first_name(names);
  auto* option = app_.add_option(
      names,
      [name, choices, &value](const CLI::results_t& given) {
        const std::string text = value_of(given);
        if (std::find(choices.begin(), choices.end(), text) == choices.end()) {
          const std::string near = nearest_name(text, choices);
          throw UsageError(
              fmt::format("{} \"{}\": must be one of {}", name, text, join_names(choices)),
              near.empty() ? "" : name + " " + near);
        }
        value = text;
        return true;
      },
      help);
  option->default_str(value);
  return mark(option, "NAME");
}

Arguments::Declared Arguments::whole(const std::string& names, int64_t& value, int64_t minimum,
                                     const std::string& help) {
  const std::string name = first_name(names);
  auto* option = app_.add_option(
      names,
      [name, minimum, &value](const CLI::results_t& given) {
        value = read_whole<int64_t>(name, value_of(given), minimum);
        return true;
      },
      help);
  // 0 stands for "not limited" where the least that can be asked for is 1.
  if (value >= minimum) option->default_str(std::to_string(value));
  return mark(option, "N");
}

Arguments::Declared Arguments::whole(const std::string& names, uint64_t& value,
                                     const std::string& help) {
  const std::string name = first_name(names);
  auto* option = app_.add_option(
      names,
      [name, &value](const CLI::results_t& given) {
        value = read_whole<uint64_t>(name, value_of(given), 0);
        return true;
      },
      help);
  option->default_str(std::to_string(value));
  return mark(option, "N");
}

Arguments::Declared Arguments::real(const std::string& names, double& value, Real range,
                                    const std::string& help) {
  const std::string name = first_name(names);
  auto* option = app_.add_option(
      names,
      [name, range, &value](const CLI::results_t& given) {
        value = read_real(name, value_of(given), range);
        return true;
      },
      help);
  option->default_str(number_text(value));
  return mark(option, "X");
}

Arguments::Declared Arguments::flag(const std::string& names, bool& value, const std::string& help,
                                    bool set) {
  auto* option = app_.add_flag_function(
      names, [&value, set](int64_t) { value = set; }, help);
  return mark(option, "");
}

void declare_devices(Arguments& arguments, TrainerOptions& options) {
  arguments.text("--devices", options.devices, "LIST",
                 "Where to compute: auto (all visible GPUs, else the CPU), cpu, cuda, cuda:all, "
                 "cuda:0,4, 2xcuda, 4xcpu (four replicas on the CPU), 4xsim (four simulated "
                 "devices), cuda:0+cpu. The results do not depend on it");
}

void declare_max_length(Arguments& arguments, TrainerOptions& options) {
  arguments
      .whole("--max-length,--max-seq-length", options.max_length, 1,
             "Tokens of a row; longer ones are shortened, and counted in the log")
      .shows_default("what the model was made for");
}

void declare_columns(Arguments& arguments, TrainerOptions& options, bool labels) {
  TextOptions& data = options.data;
  arguments.group("Reading the files (.csv, .tsv, .jsonl, .parquet)");
  arguments
      .text("--text-column,--text-column-name", data.text_column, "C",
            "Column of the text, by name; by number from 0 with --no-header")
      .shows_default("found by name: text, sentence, …");
  arguments.text("--text-pair-column", data.text_pair_column, "C",
                 "Column of the second text, where a row is a pair");
  if (labels) {
    arguments
        .text("--label-column,--label-column-name", data.label_column, "C", "Column of the label")
        .shows_default("found by name: label, class, …");
  }
  arguments.flag("--no-header", data.no_header,
                 "The first line is a row already, and columns have numbers");
  arguments.text("--encoding", data.encoding, "NAME",
                 "Encoding of the file: utf-8, gb18030, iso-8859-1, or any other that ICU knows");
  arguments.flag("--skip-bad-rows", data.skip_bad_rows,
                 "Leave out rows that cannot be read, and list them, instead of stopping");
}

}  // namespace yoke::cli
