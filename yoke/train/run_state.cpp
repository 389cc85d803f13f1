#include "yoke/train/run_state.h"

#include <vector>

#include "yoke/core/error.h"
#include "yoke/core/suggest.h"

namespace yoke {
namespace {

constexpr int64_t version = 1;

template <class T>
void read(const Json& from, const char* key, T& value) {
  from.at(key).get_to(value);
}

std::string shown(const Json& value) { return value.is_null() ? "absent" : value.dump(); }

}  // namespace

std::string RunState::to_text() const {
  const Json json = {{"version", version},
                     {"step", step},
                     {"total_steps", total_steps},
                     {"samples", samples},
                     {"epoch", epoch},
                     {"finished", finished},
                     {"loss_sum", loss_sum},
                     {"targets", targets},
                     {"since_report",
                      {{"loss_sum", line_loss_sum},
                       {"targets", line_targets},
                       {"rows", line_rows},
                       {"tokens", line_tokens}}},
                     {"run", identity},
                     {"splits", splits}};
  return json.dump(1) + "\n";
}

RunState RunState::from_file(const std::string& path) {
  const Json json = read_json(path, "train.resume");
  RunState state;
  try {
    if (json.at("version").get<int64_t>() != version)
      throw Error("train.resume",
                  path + ": is of version " + json.at("version").dump() +
                      ", this yoke knows version " + std::to_string(version),
                  "the yoke that wrote it");
    read(json, "step", state.step);
    read(json, "total_steps", state.total_steps);
    read(json, "samples", state.samples);
    read(json, "epoch", state.epoch);
    read(json, "finished", state.finished);
    read(json, "loss_sum", state.loss_sum);
    read(json, "targets", state.targets);
    const auto& line = json.at("since_report");
    read(line, "loss_sum", state.line_loss_sum);
    read(line, "targets", state.line_targets);
    read(line, "rows", state.line_rows);
    read(line, "tokens", state.line_tokens);
    state.identity = json.at("run");
    state.splits = json.at("splits");
  } catch (const nlohmann::json::exception& e) {
    throw Error("train.resume", path + ": is not a state that yoke wrote (" + e.what() + ")");
  }
  if (state.step < 0 || state.step > state.total_steps)
    throw Error("train.resume", path + ": step " + std::to_string(state.step) + " of " +
                                    std::to_string(state.total_steps));
  return state;
}

void check_same_run(const Json& saved, const Json& mine, const std::string& checkpoint) {
  std::vector<std::string> differences;
  for (const auto& [key, value] : mine.items()) {
    const auto found = saved.find(key);
    const Json there = found == saved.end() ? Json() : *found;
    if (there == value) continue;
    if (key == "model") {
      differences.push_back("the model that the run started from is another one");
    } else if (key == "data") {
      differences.push_back("the training rows differ (the file has changed, or how it is read)");
    } else {
      differences.push_back(key + " is " + shown(value) + " here and " + shown(there) + " there");
    }
  }
  if (differences.empty()) return;
  throw Error("train.resume", checkpoint + ": is of another run: " + join_names(differences, 20),
              "what that run was given; or start a new run from its weights: .model = \"" +
                  checkpoint + "\" (--model) with another output folder");
}

}  // namespace yoke
