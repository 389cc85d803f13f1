// Faults at every stage of a step, on any device: the call ends with that one error, in seconds, no
// thread is left behind, the process and the last checkpoint are usable.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <thread>

#include "tests/train/support.h"
#include "tests/train/tiny_model.h"
#include "yoke/core/error.h"
#include "yoke/core/failpoint.h"
#include "yoke/core/file.h"
#include "yoke/core/log.h"
#include "yoke/data/batch_plan.h"
#include "yoke/device/devices.h"
#include "yoke/device/sim_device.h"
#include "yoke/train/balance.h"
#include "yoke/train/step.h"
#include "yoke/train/trainer.h"

namespace yoke {
namespace {

using testing::has;
using testing::message_of;
using testing::TinyModel;

struct Failpoint {  // armed while it lives
  explicit Failpoint(std::function<void(const char*, int)> handler) {
    set_failpoint(std::move(handler));
  }
  ~Failpoint() { set_failpoint({}); }
};

int threads_now() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.rfind("Threads:", 0) == 0) return std::atoi(line.c_str() + 8);
  return 0;
}

double seconds_of(const std::function<void()>& call) {
  const auto start = std::chrono::steady_clock::now();
  call();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

struct StepLog {
  std::vector<StepEvent> steps;
  std::function<void(const Event&)> sink() {
    return [this](const Event& event) {
      if (auto* e = std::get_if<StepEvent>(&event)) steps.push_back(*e);
    };
  }
};

TrainerOptions options_of(const TinyModel& tiny, const std::string& devices,
                          const std::string& mode) {
  TrainerOptions o{.model = tiny.model_folder(), .devices = devices};
  o.batch_size = 16;
  o.epochs = 1;
  o.learning_rate = 1e-3;
  o.mode = mode;
  o.logging_steps = 1;
  return o;
}

TEST(Failure, a_fault_at_any_stage_ends_the_call_and_the_run_can_go_on) {
  const TinyModel tiny("faults", 2);
  const auto rows = tiny.write_rows("train.tsv", 64);
  const bool soak = std::getenv("YOKE_SOAK") != nullptr;
  PhiloxStream random(17, 1);
  const std::vector<std::string> stages{"step.data",    "step.forward",   "step.backward",
                                        "step.reduce",  "step.optimizer", "save",
                                        "save.tensors", "save.commit"};
  const std::vector<std::string> devices{"cpu", "2xcpu", "4xsim", "3xsim", "sim:0+cpu", "8xsim"};
  // The straight run of each mode and number of devices.
  std::map<std::string, std::string> truth;
  const auto weights_of = [](const std::string& out) {
    return read_file(out + "/model.safetensors", "test");
  };
  int runs = 0;
  for (int repeat = 0; repeat < (soak ? 5 : 1); ++repeat)
    for (const auto& stage : stages)
      for (size_t d = 0; d < (soak ? devices.size() : 3); ++d)
        for (const std::string mode : {"fast", "exact"}) {
          if (mode == "exact" && stage == "step.reduce") continue;  // there is no such stage
          const auto& where = devices[d];
          const std::string key = mode + where;
          if (!truth.count(key)) {
            auto o = options_of(tiny, where, mode);
            o.output = tiny.path("truth-" + key);
            Trainer(o).train(rows);
            truth[key] = weights_of(o.output);
          }
          auto o = options_of(tiny, where, mode);
          o.output = tiny.path("out");
          o.save_steps = 1;
          std::filesystem::remove_all(o.output);
          const int threads = threads_now();
          const int64_t hit = 1 + int64_t(random.below(8));
          std::atomic<int64_t> seen{0};
          std::string text;
          double seconds = 0;
          {
            const Failpoint fault([&](const char* name, int) {
              if (name == stage && ++seen == hit) throw std::runtime_error("injected");
            });
            Trainer trainer(o);
            seconds = seconds_of([&] { text = message_of([&] { trainer.train(rows); }); });
          }
          ++runs;
          if (text == "no error") {  // fewer than `hit` such places in this run
            EXPECT_LT(seen, hit);
            continue;
          }
          EXPECT_TRUE(has(text, "injected")) << text;
          EXPECT_LT(seconds, 5) << stage << " " << where;
          // Threads of an OpenMP pool end by themselves once their owner is gone.
          for (int wait = 0; wait < 200 && threads_now() > threads; ++wait)
            std::this_thread::sleep_for(std::chrono::milliseconds(10));
          EXPECT_LE(threads_now(), threads) << stage << " " << where;
          if (stage == "step.forward" || stage == "step.backward") {
            EXPECT_TRUE(has(text, "row") && has(text, "train.tsv") && has(text, "step ")) << text;
          }
          // On with the same Trainer, from what was saved.
          auto goes_on = o;
          goes_on.resume = "";
          Trainer again(goes_on);
          again.train(rows);
          EXPECT_EQ(weights_of(o.output), truth[key]) << stage << " " << hit << " " << key;
        }
  if (soak) std::printf("soak: %d faults\n", runs);
  EXPECT_GT(runs, 30);
}

TEST(Failure, where_checkpoints_are_wanted_the_steps_before_a_failure_are_saved) {
  const TinyModel tiny("last", 2);
  const auto rows = tiny.write_rows("train.tsv", 64);
  for (const std::string mode : {"fast", "exact"})
    for (const int64_t save_steps : {0, 100}) {
      auto o = options_of(tiny, "2xcpu", mode);
      o.output = tiny.path("out-" + mode + std::to_string(save_steps));
      o.save_steps = save_steps;
      std::atomic<int> steps{0};
      const Failpoint fault([&](const char* name, int rank) {
        if (std::string(name) == "step.optimizer" && rank == 0 && ++steps == 3)
          throw std::runtime_error("injected");
      });
      EXPECT_TRUE(has(message_of([&] { Trainer(o).train(rows); }), "injected"));
      EXPECT_EQ(std::filesystem::exists(o.output + "/checkpoint-2/trainer_state.json"),
                save_steps > 0);
    }
}

TEST(Failure, running_out_of_memory_in_fast_repeats_the_step_in_smaller_pieces) {
  const TinyModel tiny("oom", 2);
  const auto rows = tiny.write_rows("train.tsv", 256);
  const auto run = [&](const std::string& devices, const std::string& on_oom, StepLog& log) {
    auto o = options_of(tiny, devices, "fast");
    o.batch_size = 128;
    o.on_oom = on_oom;
    o.on_event = log.sink();
    Trainer trainer(o);
    trainer.train(rows);
  };
  for (const std::string devices : {"2xsim", "sim:0+cpu", "4xsim", "1xsim"}) {
    sim::enable();
    const int device = devices == "2xsim" || devices == "4xsim" ? 1 : 0;
    StepLog free;
    sim::reset_peak_memory(device);
    run(devices, "", free);
    const int64_t peak = sim::peak_memory(device), rest = sim::memory_in_use(device);
    std::string lines;
    auto former = set_log_sink([&](LogLevel, const std::string& line) { lines += line + "\n"; });
    StepLog tight;
    sim::set_capacity(device, rest + (peak - rest) * 7 / 10);
    run(devices, "", tight);
    EXPECT_TRUE(has(message_of([&] {
                      StepLog none;
                      run(devices, "stop", none);
                    }),
                    "out of memory"));
    sim::set_capacity(device, 0);
    set_log_sink(former);
    EXPECT_TRUE(has(lines, "repeating the step with micro-batches of at most")) << lines;
    ASSERT_EQ(tight.steps.size(), free.steps.size());
    for (size_t i = 0; i < free.steps.size(); ++i) {
      EXPECT_NEAR(tight.steps[i].loss, free.steps[i].loss, 1e-5 * free.steps[i].loss) << devices;
      EXPECT_NEAR(tight.steps[i].grad_norm, free.steps[i].grad_norm,
                  1e-4 * free.steps[i].grad_norm);
      EXPECT_EQ(tight.steps[i].rows, free.steps[i].rows);
    }
  }
}

TEST(Failure, in_exact_running_out_of_memory_is_an_error_unless_splitting_is_asked_for) {
  const TinyModel tiny("oom-exact", 2);
  const auto rows = tiny.write_rows("train.tsv", 64);
  std::atomic<int> hits{0};
  const Failpoint fault([&](const char* name, int) {
    if (std::string(name) == "step.forward" && ++hits == 12) throw std::bad_alloc();
  });
  auto o = options_of(tiny, "2xcpu", "exact");
  o.batch_size = 32;
  const auto text = message_of([&] { Trainer(o).train(rows); });
  EXPECT_TRUE(has(text, "out of memory") && has(text, "--logical-shards") &&
              has(text, "--on-oom split"))
      << text;
  hits = 0;
  o.on_oom = "split";
  o.output = tiny.path("out");
  o.save_steps = 1;
  EXPECT_EQ(Trainer(o).train(rows).steps, 2);
  const auto state = read_json(o.output + "/checkpoint-2/trainer_state.json", "test");
  EXPECT_EQ(state["splits"].dump(), R"([{"step":1,"micro_batch_rows":2}])");
}

// Devices whose time is their tokens times a constant, the second one's twice as long.
TEST(Balance, by_speed_a_device_of_half_the_speed_gets_half_the_tokens) {
  const std::vector<int64_t> lengths(400, 5);
  TrainPlan plan(lengths, {.batch_size = 40, .epochs = 1});
  for (const std::string devices : {"2xsim", "sim:0+cpu"}) {
    struct Net : torch::nn::Module {
      at::Tensor w = register_parameter("w", at::ones({3}));
    };
    auto net = std::make_shared<Net>();
    ReplicaSet replicas(
        net, [] { return std::make_shared<Net>(); }, parse_devices(devices));
    Balance balance({"a", "b"}, true), only_looks({"a", "b"}, false);
    std::vector<int64_t> tokens;
    std::string advice;
    for (int64_t step = 0; step < 10; ++step) {
      const auto batch = plan.batch(step);
      const auto shares = deal(batch, plan.lengths(), 2, {}, balance.speeds());
      tokens.clear();
      StepInput input{.step = step, .targets = 40, .learning_rate = 0};
      for (const auto& share : shares) {
        tokens.push_back(0);
        for (const auto& micro : share) tokens.back() += micro.tokens;
        input.micro_batches.push_back(share.size());
      }
      const auto out =
          run_step(replicas, input, {.weight_decay = {0}},
                   {.forward =
                        [&](const Worker& worker, size_t shard, size_t) {
                          std::this_thread::sleep_for(
                              std::chrono::microseconds(tokens[shard] * (shard == 1 ? 400 : 200)));
                          return MicroLoss{static_cast<Net&>(worker.module).w.sum(), 1.0};
                        },
                    .slots = [](size_t, size_t) { return std::vector<int64_t>(); },
                    .rows = [](int, size_t) { return std::string("rows"); }});
      balance.add(tokens, out.seconds);
      for (int i = 0; i < 3; ++i) only_looks.add(tokens, out.seconds);
      if (advice.empty()) advice = only_looks.advice();
    }
    EXPECT_NEAR(double(tokens[1]) / double(tokens[0]), 0.5, 0.15) << devices;
    EXPECT_TRUE(only_looks.speeds().empty());
    EXPECT_TRUE(has(advice, "--balance speed") && has(advice, "b computes")) << advice;
  }
}

TEST(Balance, by_speed_the_numbers_stay) {
  const TinyModel tiny("balance", 2);
  const auto rows = tiny.write_rows("train.tsv", 160);
  StepLog plain, balanced;
  auto o = options_of(tiny, "2xsim", "fast");
  o.on_event = plain.sink();
  Trainer(o).train(rows);
  const Failpoint slow([](const char* name, int rank) {
    if (std::string(name) == "step.backward" && rank == 1)
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
  });
  o.balance = "speed";
  o.on_event = balanced.sink();
  Trainer(o).train(rows);
  ASSERT_EQ(balanced.steps.size(), plain.steps.size());
  for (size_t i = 0; i < plain.steps.size(); ++i)
    EXPECT_NEAR(balanced.steps[i].loss, plain.steps[i].loss, 1e-5 * plain.steps[i].loss);
}

TEST(Balance, equal_devices_need_the_same_memory) {
  const TinyModel tiny("level", 2);
  const auto rows = tiny.write_rows("train.tsv", 512);
  sim::enable();
  for (const int n : {2, 4, 8}) {
    auto o = options_of(tiny, std::to_string(n) + "xsim", "fast");
    o.batch_size = 256;
    std::vector<double> peaks;
    {
      Trainer trainer(o);
      for (int d = 0; d < n; ++d) sim::reset_peak_memory(d);
      trainer.train(rows);
      for (int d = 0; d < n; ++d) peaks.push_back(double(sim::peak_memory(d)));
    }
    const auto [least, most] = std::minmax_element(peaks.begin(), peaks.end());
    EXPECT_LE(*most, 1.05 * *least) << n;
  }
}

TEST(Failure, devices_beyond_the_logical_shards_and_options_that_do_not_fit_are_refused) {
  const TinyModel tiny("shards", 2);
  const auto rows = tiny.write_rows("train.tsv", 16);
  auto o = options_of(tiny, "3xsim", "exact");
  o.logical_shards = 2;
  EXPECT_TRUE(has(message_of([&] { Trainer(o).train(rows); }), "3 devices for 2 logical shards"));
  o = options_of(tiny, "cpu", "fast");
  o.logical_shards = 2;
  EXPECT_TRUE(has(message_of([&] { Trainer{o}; }), "mode exact"));
  o = options_of(tiny, "cpu", "exakt");
  EXPECT_TRUE(has(message_of([&] { Trainer{o}; }), "fast, exact"));
}

// Cases 22 and 23 of the field: after a failure on one device, and on devices that are not the
// first, the same process trains on.
TEST(Failure, other_devices_of_the_same_process_train_on) {
  const TinyModel tiny("after", 2);
  const auto rows = tiny.write_rows("train.tsv", 32);
  StepLog first, second;
  auto o = options_of(tiny, "sim:0", "fast");
  o.on_event = first.sink();
  Trainer(o).train(rows);
  o.devices = "sim:1,3";
  o.on_event = second.sink();
  Trainer trainer(o);
  trainer.train(rows);
  for (size_t i = 0; i < first.steps.size(); ++i)
    EXPECT_NEAR(second.steps.at(i).loss, first.steps[i].loss, 1e-5 * first.steps[i].loss);
}

}  // namespace
}  // namespace yoke
