// Options of the Hugging Face Trainer that would mean something else for every number of devices,
// or that yoke says in another way. Each is an error that gives what to write.
#include <fmt/format.h>

#include <charconv>
#include <optional>

#include "cli/arguments.h"

namespace yoke::cli {
namespace {

constexpr const char* per_device_train = "--per-device-train-batch-size";
constexpr const char* per_device_eval = "--per-device-eval-batch-size";
constexpr const char* accumulation = "--gradient-accumulation-steps";
constexpr const char* warmup_ratio = "--warmup-ratio";

using Given = std::map<std::string, std::string>;

std::optional<int64_t> whole(const std::string& text) {
  int64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end || value < 1 || value > 1'000'000) return std::nullopt;
  return value;
}

// How many devices a string names, where it says so itself ("auto" and "cuda:all" do not). Whether
// they exist is the library's question.
std::optional<int64_t> count_devices(const std::string& devices) {
  if (devices.empty()) return std::nullopt;
  int64_t count = 0;
  for (size_t begin = 0; begin <= devices.size();) {
    const size_t end = std::min(devices.find('+', begin), devices.size());
    const std::string part = devices.substr(begin, end - begin);
    begin = end + 1;
    if (part.empty() || part == "auto" || part.ends_with(":all")) return std::nullopt;
    const size_t times = part.find('x');
    if (times != std::string::npos) {
      const auto n = whole(part.substr(0, times));
      if (!n) return std::nullopt;
      count += *n;
    } else {
      count += 1 + std::count(part.begin(), part.end(), ',');
    }
  }
  return count;
}

std::string value_of(const Given& given, const std::string& name, const std::string& otherwise) {
  const auto found = given.find(name);
  return found == given.end() ? otherwise : found->second;
}

// "--batch-size 64 (16 a device x 2 devices x 2 accumulation steps)", or the same with N where a
// factor is not known.
std::string global_batch_size(const Given& given, const char* per_device) {
  const std::string devices = value_of(given, "--devices", "auto");
  const auto count = count_devices(devices);
  const std::string rows = value_of(given, per_device, "");
  const std::string steps =
      per_device == per_device_train ? value_of(given, accumulation, "1") : "1";
  // Accumulation alone: its other factor is the --batch-size beside it, or the Trainer's 8 a
  // device.
  const std::string base = rows.empty() ? value_of(given, "--batch-size", "") : rows;
  const auto base_rows = whole(base);
  const auto base_steps = whole(steps);
  if (rows.empty()) {
    if (base_rows && base_steps)
      return fmt::format("--batch-size {} ({} rows x {} accumulation steps)",
                         *base_rows * *base_steps, *base_rows, *base_steps);
    return "--batch-size N, with N = rows a device x devices x accumulation steps";
  }
  const std::string of_steps =
      given.count(accumulation) ? fmt::format(" x {} accumulation steps", steps) : "";
  if (base_rows && base_steps && count)
    return fmt::format("--batch-size {} ({} a device x {} {}{})", *base_rows * *count * *base_steps,
                       rows, *count, *count == 1 ? "device" : "devices", of_steps);
  return fmt::format("--batch-size N, with N = {} x the number of devices{}", rows, of_steps);
}

}  // namespace

bool is_refused(const std::string& name) {
  return name == per_device_train || name == per_device_eval || name == accumulation ||
         name == warmup_ratio;
}

void refuse_foreign_options(const Given& given) {
  constexpr const char* global =
      "the batch size of yoke is the global one, whatever the number of devices, and memory is "
      "bounded by --micro-batch-tokens";
  for (const char* name : {per_device_train, accumulation})
    if (given.count(name))
      throw UsageError(fmt::format("{} is not an option: {}", name, global),
                       global_batch_size(given, per_device_train));
  if (given.count(per_device_eval))
    throw UsageError(
        fmt::format(
            "{} is not an option: evaluation sees every row once, with the same numbers for "
            "every batch size and number of devices",
            per_device_eval),
        given.count("--train") ? "leaving it out" : global_batch_size(given, per_device_eval));
  if (given.count(warmup_ratio))
    throw UsageError(fmt::format("{} is not an option", warmup_ratio),
                     fmt::format("--warmup-steps {} (below 1 it is a share of all steps)",
                                 given.at(warmup_ratio)));
}

}  // namespace yoke::cli
