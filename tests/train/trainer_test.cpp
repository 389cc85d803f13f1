// The Trainer end to end on a small BERT: the number of devices shows nowhere.
#include "yoke/train/trainer.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/ops/equal.h>
#include <c10/core/GradMode.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>

#include "tests/train/support.h"
#include "tests/train/tiny_model.h"
#include "yoke/checkpoint/model_folder.h"
#include "yoke/core/error.h"
#include "yoke/core/file.h"
#include "yoke/device/devices.h"
#include "yoke/device/sim_device.h"

namespace yoke {
namespace {

using testing::has;
using testing::message_of;
using testing::TinyModel;
namespace fs = std::filesystem;

const std::vector<std::string> all_devices{"cpu",   "2xcpu", "3xcpu", "8xcpu",
                                           "1xsim", "2xsim", "4xsim", "sim:0+cpu"};

struct Log {
  std::vector<StepEvent> steps;
  std::vector<EvaluateEvent> scores;
  std::vector<SavedEvent> saved;
  std::vector<StartEvent> starts;
  std::function<void(const Event&)> sink() {
    return [this](const Event& event) {
      if (auto* e = std::get_if<StepEvent>(&event)) steps.push_back(*e);
      if (auto* e = std::get_if<EvaluateEvent>(&event)) scores.push_back(*e);
      if (auto* e = std::get_if<SavedEvent>(&event)) saved.push_back(*e);
      if (auto* e = std::get_if<StartEvent>(&event)) starts.push_back(*e);
    };
  }
};

TEST(Trainer, loss_and_gradient_norm_of_a_step_do_not_depend_on_the_division) {
  const TinyModel tiny("division", 2);
  const auto rows = tiny.write_rows("train.tsv", 8);
  double loss = 0, norm = 0;
  // (devices, rows of a micro-batch): one device whole, in parts, row by row; then 2, 4, 8 devices.
  const std::vector<std::pair<std::string, int64_t>> divisions{
      {"cpu", 8},   {"cpu", 2},   {"cpu", 1},   {"2xcpu", 4}, {"2xcpu", 2},
      {"4xcpu", 1}, {"8xcpu", 1}, {"2xsim", 4}, {"4xsim", 1}, {"8xsim", 1}};
  for (const auto& [devices, micro] : divisions) {
    Log log;
    Trainer trainer({.model = tiny.model_folder(),
                     .devices = devices,
                     .batch_size = 8,
                     .epochs = 1,
                     .logging_steps = 1,
                     .micro_batch_rows = micro,
                     .on_event = log.sink()});
    trainer.train(rows);
    ASSERT_EQ(log.steps.size(), 1u);
    if (loss == 0) {
      loss = log.steps[0].loss;
      norm = log.steps[0].grad_norm;
    }
    EXPECT_NEAR(log.steps[0].loss, loss, 1e-5 * loss) << devices << " " << micro;
    EXPECT_NEAR(log.steps[0].grad_norm, norm, 1e-5 * norm) << devices << " " << micro;
    EXPECT_EQ(log.steps[0].rows, 8);
  }
}

TEST(Trainer, training_with_dropout_evaluation_and_files_are_the_same_on_any_devices) {
  const TinyModel tiny("devices");
  const auto train = tiny.write_rows("train.tsv", 203), dev = tiny.write_rows("dev.tsv", 57, 2);
  std::vector<StepEvent> first;
  StateDict reference;
  for (const auto& devices : all_devices) {
    Log log;
    const std::string out = tiny.path("out-" + devices);
    Trainer trainer({.model = tiny.model_folder(),
                     .devices = devices,
                     .batch_size = 32,
                     .epochs = 3,
                     .learning_rate = 1e-3,
                     .seed = 7,
                     .output = out,
                     .logging_steps = 1,
                     .on_event = log.sink()});
    const TrainResult result = trainer.train(train, dev);
    EXPECT_EQ(result.steps, 21);
    EXPECT_EQ(result.path, out);
    ASSERT_EQ(log.steps.size(), 21u);
    ASSERT_EQ(log.scores.size(), 3u);  // after each epoch; the last is the end
    if (first.empty()) first = log.steps;
    for (size_t i = 0; i < 10; ++i) {
      EXPECT_NEAR(log.steps[i].loss, first[i].loss, 1e-5 * first[i].loss)
          << devices << " step " << i;
      EXPECT_EQ(log.steps[i].learning_rate, first[i].learning_rate);
      EXPECT_EQ(log.steps[i].tokens, first[i].tokens);
      EXPECT_EQ(log.steps[i].epoch, first[i].epoch);
    }
    EXPECT_EQ(log.scores.back().rows, 57);
    EXPECT_GT(log.scores.back().accuracy, 0.9) << devices;  // and it learns

    const StateDict saved = read_weights(resolve_model(out));
    if (reference.empty()) reference = saved;
    ASSERT_EQ(saved.names(), reference.names());
    for (const auto& [name, tensor] : saved) {
      EXPECT_EQ(tensor.sizes(), reference.at(name).sizes());
      EXPECT_EQ(tensor.scalar_type(), at::kFloat);
    }
    // What was saved scores as what was trained, bit for bit, on any devices.
    for (const auto& other : {"cpu", "3xsim", "2xcpu"}) {
      Log again;
      Trainer loaded({.model = out, .devices = other, .on_event = again.sink()});
      EXPECT_EQ(loaded.evaluate(dev).values,
                (std::map<std::string, double>{{"loss", log.scores.back().loss},
                                               {"accuracy", log.scores.back().accuracy}}))
          << devices << " then " << other;
    }
  }
}

TEST(Trainer, a_run_repeats_itself_to_the_bit_and_another_seed_is_another_run) {
  const TinyModel tiny("repeat");
  const auto rows = tiny.write_rows("train.tsv", 64);
  auto losses = [&](const std::string& devices, uint64_t seed) {
    Log log;
    Trainer trainer({.model = tiny.model_folder(),
                     .devices = devices,
                     .epochs = 2,
                     .seed = seed,
                     .logging_steps = 1,
                     .on_event = log.sink()});
    trainer.train(rows);
    std::vector<double> all;
    for (const auto& step : log.steps) all.push_back(step.loss);
    return all;
  };
  for (const auto& devices : {"cpu", "2xcpu", "4xsim"})
    EXPECT_EQ(losses(devices, 1), losses(devices, 1)) << devices;
  EXPECT_NE(losses("cpu", 1), losses("cpu", 2));
}

TEST(Trainer, predict_returns_every_row_in_order_for_any_count_and_devices) {
  const TinyModel tiny("predict", 3);
  for (int64_t n : {1, 2, 7, 22, 23, 24, 25}) {
    const auto rows = tiny.write_rows("rows.tsv", n, uint64_t(n));
    std::vector<std::vector<float>> first;
    for (const auto& devices : all_devices) {
      Log log;
      int64_t next = 0;
      Trainer trainer({.model = tiny.model_folder(),
                       .devices = devices,
                       .batch_size = 8,
                       .on_event = [&](const Event& event) {
                         if (auto* e = std::get_if<PredictEvent>(&event)) {
                           EXPECT_EQ(e->row, next++);
                         }
                       }});
      const auto predictions = trainer.predict(rows);
      EXPECT_EQ(next, n);
      ASSERT_EQ(int64_t(predictions.size()), n);
      std::vector<std::vector<float>> logits;
      for (const auto& p : predictions) {
        logits.push_back(p.logits);
        EXPECT_EQ(p.logits.size(), 3u);
        EXPECT_TRUE(has(p.label, "LABEL_"));
      }
      if (first.empty()) first = logits;
      EXPECT_EQ(logits, first) << devices << " " << n;  // to the bit
    }
  }
}

TEST(Trainer, labels_by_name_land_in_the_folder_and_come_back_by_name) {
  const TinyModel tiny("names");
  const auto rows = tiny.write_rows("train.tsv", 60, 1, {"sad", "glad"});
  const std::string out = tiny.path("out");
  {
    Trainer trainer({.model = tiny.model_folder(),
                     .devices = "2xcpu",
                     .batch_size = 8,
                     .epochs = 10,
                     .learning_rate = 1e-3,
                     .output = out});
    trainer.train(rows);
    EXPECT_EQ(trainer.labels(), (std::vector<std::string>{"glad", "sad"}));
  }
  const Json config = read_json(out + "/config.json", "test");
  EXPECT_EQ(config["id2label"]["0"], "glad");
  EXPECT_EQ(config["label2id"]["sad"], 1);
  Trainer loaded({.model = out, .devices = "cpu"});
  EXPECT_EQ(loaded.predict(std::vector<std::string>{"the film was great and good"})[0].label,
            "glad");
  EXPECT_GT(loaded.evaluate(rows)["accuracy"], 0.9);
  const auto unknown = tiny.write("unknown.tsv", "sentence\tlabel\ngood\tglad\nbad\tangry\n");
  const auto text = message_of([&] { loaded.evaluate(unknown); });
  EXPECT_TRUE(has(text, "angry") && has(text, "row 2") && has(text, "glad, sad")) << text;
  EXPECT_GT(loaded.evaluate(rows)["accuracy"], 0.9);  // still usable
}

TEST(Trainer, fractions_as_labels_make_a_regression) {
  const TinyModel tiny("regression");
  const auto rows = tiny.write(
      "train.tsv",
      "sentence\tlabel\ngood film\t1.5\nbad film\t-0.5\ngood cast\t1.5\npoor plot\t-0.5\n");
  for (const auto& devices : {"cpu", "2xcpu", "4xsim"}) {
    Log log;
    const std::string out = tiny.path(std::string("out-") + devices);
    Trainer trainer({.model = tiny.model_folder(),
                     .devices = devices,
                     .batch_size = 4,
                     .epochs = 60,
                     .learning_rate = 1e-3,
                     .output = out,
                     .on_event = log.sink()});
    trainer.train(rows, rows);
    EXPECT_LT(log.scores.back().mse, 0.1);
    EXPECT_FALSE(log.scores.back().has_accuracy);
    Trainer loaded({.model = out, .devices = "cpu"});
    EXPECT_EQ(loaded.evaluate(rows)["mse"], log.scores.back().mse);
    EXPECT_NEAR(loaded.predict(std::vector<std::string>{"good film"})[0].score, 1.5, 0.5);
  }
}

TEST(Trainer, a_model_without_a_head_can_be_trained_but_not_used) {
  const TinyModel tiny("headless");
  const auto rows = tiny.write_rows("rows.tsv", 16);
  EXPECT_TRUE(has(
      message_of([&] { Trainer({.model = tiny.model_folder(), .devices = "cpu"}).evaluate(rows); }),
      "base model"));
  EXPECT_TRUE(has(message_of([&] {
                    Trainer({.model = tiny.model_folder(), .devices = "cpu"})
                        .predict(std::vector<std::string>{"x"});
                  }),
                  "base model"));
  Log log;
  Trainer trainer(
      {.model = tiny.model_folder(), .devices = "cpu", .epochs = 1, .on_event = log.sink()});
  trainer.train(rows);
  EXPECT_EQ(log.starts.at(0).new_tensors,
            (std::vector<std::string>{"classifier.weight", "classifier.bias"}));
}

TEST(Trainer, stop_ends_after_the_step_under_way_and_saves) {
  const TinyModel tiny("stop");
  const auto rows = tiny.write_rows("train.tsv", 64);
  for (const auto& devices : {"cpu", "2xcpu", "4xsim"}) {
    const std::string out = tiny.path(std::string("out-") + devices);
    Trainer* running = nullptr;
    Trainer trainer({.model = tiny.model_folder(),
                     .devices = devices,
                     .batch_size = 8,
                     .epochs = 100,
                     .output = out,
                     .logging_steps = 1,
                     .on_event = [&](const Event& event) {
                       if (auto* e = std::get_if<StepEvent>(&event); e && e->step == 5)
                         running->stop();
                     }});
    running = &trainer;
    const auto result = trainer.train(rows);
    EXPECT_TRUE(result.stopped);
    EXPECT_EQ(result.steps, 6);
    EXPECT_TRUE(fs::exists(out + "/model.safetensors"));
  }
}

TEST(Trainer, a_loss_that_is_not_finite_stops_with_step_and_rows_and_saves_nothing) {
  const TinyModel tiny("nan");
  const auto rows = tiny.write_rows("train.tsv", 32);
  for (const auto& devices : {"cpu", "2xcpu", "4xsim"}) {
    const std::string out = tiny.path("out");
    const auto text = message_of([&] {
      Trainer trainer({.model = tiny.model_folder(),
                       .devices = devices,
                       .batch_size = 8,
                       .epochs = 10,
                       .learning_rate = 1e30,
                       .max_grad_norm = 0,
                       .output = out});
      trainer.train(rows);
    });
    EXPECT_TRUE(has(text, "step ") && has(text, "row") && has(text, "train.tsv")) << text;
    EXPECT_FALSE(fs::exists(out));
  }
}

TEST(Trainer, running_out_of_memory_names_the_device_and_the_option_and_the_trainer_goes_on) {
  const TinyModel tiny("memory", 2);
  const auto rows = tiny.write_rows("train.tsv", 64);
  Trainer trainer(
      {.model = tiny.model_folder(), .devices = "4xsim", .batch_size = 64, .epochs = 1});
  trainer.predict(std::vector<std::string>{"good"});  // the replicas are there
  sim::set_capacity(1, sim::memory_in_use(1) + 100000);
  const auto text = message_of([&] { trainer.train(rows); });
  EXPECT_TRUE(has(text, "sim:1") && has(text, "out of memory") && has(text, "--micro-batch-tokens"))
      << text;
  sim::set_capacity(1, 0);
  EXPECT_EQ(trainer.train(rows).steps, 1);
}

TEST(Trainer, a_device_too_small_for_the_model_or_for_a_forward_pass_is_told_so) {
  const TinyModel tiny("small", 2);
  const auto rows = tiny.write_rows("rows.tsv", 20);
  sim::enable();
  sim::set_capacity(2, sim::memory_in_use(2) + 1000);
  const auto placing = message_of(
      [&] { Trainer({.model = tiny.model_folder(), .devices = "sim:1,2"}).evaluate(rows); });
  EXPECT_TRUE(has(placing, "out of memory") && has(placing, "sim:2")) << placing;
  sim::set_capacity(2, 0);
  Trainer trainer({.model = tiny.model_folder(), .devices = "sim:2"});
  trainer.predict(std::vector<std::string>{"good"});
  sim::set_capacity(2, sim::memory_in_use(2) + 1000);
  const auto passing = message_of([&] { trainer.evaluate(rows); });
  EXPECT_TRUE(has(passing, "out of memory") && has(passing, "sim:2") && has(passing, "row"))
      << passing;
  sim::set_capacity(2, 0);
  EXPECT_EQ(trainer.evaluate(rows).rows, 20);
}

TEST(Trainer, an_output_that_holds_files_is_refused_before_any_work) {
  const TinyModel tiny("output");
  const auto rows = tiny.write_rows("train.tsv", 8);
  const std::string out = tiny.path("full");
  fs::create_directories(out);
  tiny.write("full/config.json", "theirs");
  Log log;
  const auto options = [&](bool overwrite) {
    return TrainerOptions{.model = tiny.model_folder(),
                          .devices = "cpu",
                          .epochs = 1,
                          .output = out,
                          .overwrite = overwrite,
                          .on_event = log.sink()};
  };
  EXPECT_TRUE(has(message_of([&] { Trainer(options(false)).train(rows); }), "holds files"));
  EXPECT_TRUE(has(message_of([&] { Trainer(options(true)).train(rows); }), "not written by yoke"));
  EXPECT_TRUE(log.steps.empty());
  EXPECT_EQ(read_file(out + "/config.json", "test"), "theirs");
}

TEST(Trainer, bad_options_and_folders_are_errors_with_a_hint) {
  const TinyModel tiny("bad");
  const auto rows = tiny.write_rows("rows.tsv", 8);
  const auto with = [&](TrainerOptions options) {
    return message_of([&] { Trainer(options).train(rows); });
  };
  EXPECT_TRUE(has(with({.devices = "cpu"}), "--model"));
  EXPECT_TRUE(has(with({.model = tiny.path("nowhere"), .devices = "cpu"}), "nowhere"));
  EXPECT_TRUE(has(with({.model = tiny.model_folder(), .task = "chess", .devices = "cpu"}),
                  "text-classification"));
  EXPECT_TRUE(has(with({.model = tiny.model_folder(), .devices = "quux:1"}), "cpu"));
  EXPECT_TRUE(
      has(with({.model = tiny.model_folder(), .devices = "cpu", .batch_size = 0}), "batch size"));
  EXPECT_TRUE(has(with({.model = tiny.model_folder(), .devices = "cpu", .lr_scheduler = "lineer"}),
                  "linear"));
  EXPECT_TRUE(has(with({.model = tiny.model_folder(), .devices = "cpu", .max_length = 33}),
                  "32 positions"));
  EXPECT_TRUE(
      has(with({.model = tiny.model_folder(), .devices = "cpu", .max_length = 1}), "max_length"));
}

TEST(Trainer, the_callers_thread_is_left_as_found) {
  const TinyModel tiny("manners", 2);
  const auto rows = tiny.write_rows("rows.tsv", 16);
  const int threads = at::get_num_threads();
  const auto generator = at::globalContext().defaultGenerator(at::kCPU);
  const auto before = generator.get_state();
  for (const auto& devices : {"cpu", "2xcpu", "4xsim"}) {
    Trainer trainer({.model = tiny.model_folder(), .devices = devices, .epochs = 1});
    trainer.train(rows);
    trainer.evaluate(rows);
    EXPECT_EQ(at::get_num_threads(), threads);
    EXPECT_TRUE(c10::GradMode::is_enabled());
    EXPECT_TRUE(at::equal(generator.get_state(), before));
  }
}

}  // namespace
}  // namespace yoke
