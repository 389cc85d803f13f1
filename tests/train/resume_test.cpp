// Stop anywhere, go on with any devices: the same run. And what is not the same run is named.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "tests/train/support.h"
#include "tests/train/tiny_model.h"
#include "yoke/checkpoint/safetensors.h"
#include "yoke/core/error.h"
#include "yoke/core/file.h"
#include "yoke/core/log.h"
#include "yoke/train/trainer.h"

namespace yoke {
namespace {

using testing::has;
using testing::message_of;
using testing::TinyModel;

// A line for every reported step, with all its digits.
struct Log {
  std::vector<std::string> steps;
  std::vector<std::string> saved;
  std::vector<StartEvent> starts;
  std::function<void(const Event&)> sink() {
    return [this](const Event& event) {
      if (std::get_if<StepEvent>(&event)) steps.push_back(to_json(event).dump());
      if (auto* e = std::get_if<SavedEvent>(&event)) saved.push_back(e->path);
      if (auto* e = std::get_if<StartEvent>(&event)) starts.push_back(*e);
    };
  }
};

struct LogLines {  // of the library, while it lives
  std::string text;
  LogSink former;
  LogLines() {
    former = set_log_sink([this](LogLevel, const std::string& line) { text += line + "\n"; });
  }
  ~LogLines() { set_log_sink(former); }
  bool has(const std::string& part) const { return text.find(part) != std::string::npos; }
};

// 25 steps, 10 steps an epoch, two micro-batches in a shard, dropout on, a report every two steps.
TrainerOptions options_of(const TinyModel& tiny, const std::string& output,
                          const std::string& devices, const std::string& mode = "exact") {
  TrainerOptions o{.model = tiny.model_folder(), .devices = devices};
  o.batch_size = 16;
  o.epochs = 2.5;
  o.learning_rate = 1e-3;
  o.seed = 5;
  o.mode = mode;
  o.logical_shards = mode == "exact" ? 4 : 0;
  o.micro_batch_rows = mode == "exact" ? 2 : 0;
  o.output = output;
  o.logging_steps = 2;
  o.save_steps = 1;
  return o;
}

std::string bytes(const std::string& path) { return read_file(path, "test"); }

TEST(Resume, in_exact_stopping_after_any_step_and_going_on_elsewhere_is_the_straight_run) {
  const TinyModel tiny("resume");
  const auto rows = tiny.write_rows("train.tsv", 160);
  const std::string straight = tiny.path("straight");
  Log log;
  auto o = options_of(tiny, straight, "cpu");
  o.on_event = log.sink();
  EXPECT_EQ(Trainer(o).train(rows).steps, 25);
  ASSERT_EQ(log.steps.size(), 13u);  // every second and the last
  ASSERT_EQ(log.saved.size(), 26u);

  const std::vector<std::string> devices{"cpu",   "2xcpu", "3xcpu",    "1xsim",
                                         "3xsim", "4xsim", "sim:0+cpu"};
  std::vector<int64_t> stops{1, 7, 10, 13, 24, 25};
  if (std::getenv("YOKE_SOAK")) {
    stops.clear();
    for (int64_t k = 1; k <= 25; ++k) stops.push_back(k);
  }
  size_t next = 0;
  for (int64_t k : stops) {
    const std::string from = straight + "/checkpoint-" + std::to_string(k);
    const std::string out = tiny.path("from-" + std::to_string(k));
    const std::string& where = devices[next++ % devices.size()];
    Log again;
    auto goes_on = options_of(tiny, out, where);
    goes_on.logical_shards = goes_on.micro_batch_rows = 0;  // the checkpoint's
    goes_on.resume = from;
    goes_on.on_event = again.sink();
    EXPECT_EQ(Trainer(goes_on).train(rows).steps, 25);
    EXPECT_EQ(bytes(out + "/model.safetensors"), bytes(straight + "/model.safetensors"))
        << k << " " << where;
    if (k < 25) {
      EXPECT_EQ(bytes(out + "/checkpoint-25/optimizer.safetensors"),
                bytes(straight + "/checkpoint-25/optimizer.safetensors"))
          << k << " " << where;
    }
    EXPECT_EQ(again.starts.at(0).resumed_step, k);
    // Reports go on where they stopped, also inside a window of two steps.
    const size_t left = again.steps.size();
    EXPECT_EQ(left, k == 25 ? 0u : size_t(13 - k / 2));
    EXPECT_EQ(again.steps,
              std::vector<std::string>(log.steps.end() - int64_t(left), log.steps.end()));
  }
  if (std::getenv("YOKE_SOAK")) std::printf("soak: %zu steps to stop at\n", stops.size());
}

TEST(Resume, saved_on_four_devices_goes_on_with_any_number) {
  const TinyModel tiny("resume-n");
  const auto rows = tiny.write_rows("train.tsv", 96);
  std::string truth;
  for (const auto& [first, second] :
       std::vector<std::pair<std::string, std::string>>{{"4xsim", "4xsim"},
                                                        {"4xsim", "1xsim"},
                                                        {"4xsim", "2xcpu"},
                                                        {"4xcpu", "3xsim"},
                                                        {"cpu", "4xcpu"}}) {
    const std::string out = tiny.path("out-" + first + "-" + second);
    Trainer* running = nullptr;
    auto o = options_of(tiny, out, first);
    o.epochs = 1;
    o.logging_steps = 1;
    o.save_steps = 0;  // a checkpoint is saved because it is stopped
    o.on_event = [&](const Event& event) {
      if (auto* e = std::get_if<StepEvent>(&event); e && e->step == 2) running->stop();
    };
    Trainer trainer(o);
    running = &trainer;
    EXPECT_TRUE(trainer.train(rows).stopped);
    auto goes_on = options_of(tiny, out, second);
    goes_on.epochs = 1;
    goes_on.resume = "";
    EXPECT_FALSE(Trainer(goes_on).train(rows).stopped);
    const auto mine = bytes(out + "/model.safetensors");
    if (truth.empty()) truth = mine;
    EXPECT_EQ(mine, truth) << first << " " << second;
  }
}

TEST(Resume, in_fast_the_run_goes_on_within_rounding_with_other_devices_and_micro_batches) {
  const TinyModel tiny("resume-fast");
  const auto rows = tiny.write_rows("train.tsv", 160);
  Log log;
  auto o = options_of(tiny, tiny.path("straight"), "cpu", "fast");
  o.logging_steps = 1;
  o.on_event = log.sink();
  Trainer(o).train(rows);
  for (const auto& [k, devices, micro] : std::vector<std::tuple<int64_t, std::string, int64_t>>{
           {4, "cpu", 0}, {9, "3xsim", 3}, {20, "2xcpu", 1}}) {
    Log again;
    auto goes_on = options_of(tiny, tiny.path("on-" + std::to_string(k)), devices, "fast");
    goes_on.micro_batch_rows = micro;
    goes_on.logging_steps = 1;
    goes_on.resume = tiny.path("straight") + "/checkpoint-" + std::to_string(k);
    goes_on.on_event = again.sink();
    Trainer(goes_on).train(rows);
    ASSERT_EQ(again.steps.size(), size_t(25 - k));
    for (size_t i = 0; i < 5; ++i) {
      const auto mine = Json::parse(again.steps[i]), truth = Json::parse(log.steps[size_t(k) + i]);
      EXPECT_NEAR(mine["loss"].get<double>(), truth["loss"].get<double>(), 1e-5);
      EXPECT_EQ(mine["learning_rate"], truth["learning_rate"]);
      EXPECT_EQ(mine["step"], truth["step"]);
      EXPECT_EQ(mine["epoch"], truth["epoch"]);
    }
  }
}

TEST(Resume, what_is_another_run_is_refused_by_name) {
  const TinyModel tiny("other"), other_model("other-model", 2);
  const auto rows = tiny.write_rows("train.tsv", 96);
  const std::string out = tiny.path("out");
  auto o = options_of(tiny, out, "cpu");
  o.epochs = 1;
  o.save_steps = 3;
  Trainer(o).train(rows);
  const std::string from = out + "/checkpoint-3";
  const auto with = [&](const std::string& file,
                        const std::function<void(TrainerOptions&)>& change) {
    auto changed = o;
    changed.output = tiny.path("elsewhere");
    changed.resume = from;
    change(changed);
    return message_of([&] { Trainer(changed).train(file); });
  };
  EXPECT_TRUE(has(with(rows, [](auto& x) { x.seed = 6; }), "seed is 6 here and 5 there"));
  EXPECT_TRUE(
      has(with(rows, [](auto& x) { x.learning_rate = 2e-3; }), "learning_rate is 0.002 here"));
  EXPECT_TRUE(
      has(with(rows, [](auto& x) { x.logical_shards = 8; }), "logical_shards is 8 here and 4"));
  EXPECT_TRUE(has(with(rows, [](auto& x) { x.micro_batch_rows = 3; }), "micro_batch_rows is 3"));
  EXPECT_TRUE(has(with(rows,
                       [](auto& x) {
                         x.mode = "fast";
                         x.logical_shards = 0;
                       }),
                  "mode is \"fast\" here"));
  EXPECT_TRUE(
      has(with(tiny.write_rows("changed.tsv", 96, 2), [](auto&) {}), "training rows differ"));
  EXPECT_TRUE(has(with(rows, [&](auto& x) { x.model = other_model.model_folder(); }),
                  "the model that the run started from"));
  EXPECT_TRUE(
      has(with(rows, [&](auto& x) { x.resume = tiny.path("nothing"); }), "no complete checkpoint"));
  EXPECT_FALSE(std::filesystem::exists(tiny.path("elsewhere")));
  // The same rows from another place, and the run's folder at another, are the same run.
  const auto moved_rows = tiny.write("moved.tsv", bytes(rows));
  std::filesystem::rename(out, tiny.path("moved"));
  EXPECT_EQ(with(moved_rows, [&](auto& x) { x.resume = tiny.path("moved") + "/checkpoint-3"; }),
            "no error");
  EXPECT_EQ(bytes(tiny.path("elsewhere") + "/model.safetensors"),
            bytes(tiny.path("moved") + "/model.safetensors"));
}

TEST(Resume, broken_checkpoints_are_passed_over_and_nothing_to_do_is_said) {
  const TinyModel tiny("broken");
  const auto rows = tiny.write_rows("train.tsv", 96);
  const std::string out = tiny.path("out");
  auto o = options_of(tiny, out, "2xcpu");
  o.epochs = 1;
  {
    LogLines lines;  // no checkpoint yet: from the beginning
    o.resume = "";
    EXPECT_EQ(Trainer(o).train(rows).steps, 6);
    EXPECT_TRUE(lines.has("starting from the beginning")) << lines.text;
  }
  const auto truth = bytes(out + "/model.safetensors");
  {
    LogLines lines;
    Log log;
    o.on_event = log.sink();
    const auto result = Trainer(o).train(rows);
    EXPECT_TRUE(lines.has("finished")) << lines.text;
    EXPECT_EQ(result.steps, 6);
    EXPECT_TRUE(log.steps.empty());
  }
  // The final model is gone, the newest checkpoints are damaged in several ways.
  std::filesystem::remove(out + "/trainer_state.json");
  std::filesystem::resize_file(out + "/checkpoint-6/optimizer.safetensors", 1000);
  std::filesystem::resize_file(out + "/checkpoint-5/model.safetensors", 100);
  std::ofstream(out + "/checkpoint-4/trainer_state.json") << "{\"version\": 1}";
  std::filesystem::remove(out + "/checkpoint-3/optimizer.safetensors");
  std::filesystem::create_directories(out + "/.checkpoint-7.tmp-999999999-0");
  std::filesystem::create_directories(out + "/checkpoint-9");
  LogLines lines;
  Log log;
  o.on_event = log.sink();
  Trainer(o).train(rows);
  EXPECT_EQ(log.starts.at(0).resumed_step, 2);
  for (const char* name : {"checkpoint-6", "checkpoint-5", "checkpoint-4"})
    EXPECT_TRUE(lines.has(std::string("passed over ") + out + "/" + name)) << lines.text;
  EXPECT_EQ(bytes(out + "/model.safetensors"), truth);
  EXPECT_FALSE(std::filesystem::exists(out + "/.checkpoint-7.tmp-999999999-0"));
}

TEST(Resume, a_limit_keeps_the_newest_and_overwriting_takes_the_old_runs_away) {
  const TinyModel tiny("limit");
  const auto rows = tiny.write_rows("train.tsv", 96);
  const std::string out = tiny.path("out");
  auto o = options_of(tiny, out, "cpu");
  o.epochs = 1;
  o.save_total_limit = 2;
  Trainer(o).train(rows);
  const auto there = [&](int64_t step) {
    return std::filesystem::exists(out + "/checkpoint-" + std::to_string(step));
  };
  EXPECT_TRUE(!there(4) && there(5) && there(6));
  tiny.write("out/notes.txt", "mine");
  EXPECT_TRUE(has(message_of([&] { Trainer(o).train(rows); }), "holds files"));
  o.overwrite = true;
  o.save_steps = 4;
  Trainer(o).train(rows);
  EXPECT_TRUE(there(4) && !there(5) && there(6));
  EXPECT_EQ(bytes(out + "/notes.txt"), "mine");
}

TEST(Resume, a_trainer_that_was_stopped_goes_on_in_the_same_process) {
  const TinyModel tiny("same");
  const auto rows = tiny.write_rows("train.tsv", 96);
  auto o = options_of(tiny, tiny.path("straight"), "cpu");
  o.epochs = 1;
  Trainer(o).train(rows);
  Trainer* running = nullptr;
  o.output = tiny.path("out");
  o.resume = "";
  o.on_event = [&](const Event& event) {
    if (auto* e = std::get_if<StepEvent>(&event); e && e->step == 4) running->stop();
  };
  Trainer trainer(o);
  running = &trainer;
  EXPECT_TRUE(trainer.train(rows).stopped);
  EXPECT_FALSE(trainer.train(rows).stopped);
  EXPECT_EQ(bytes(o.output + "/model.safetensors"),
            bytes(tiny.path("straight") + "/model.safetensors"));
}

}  // namespace
}  // namespace yoke
