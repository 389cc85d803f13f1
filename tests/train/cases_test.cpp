// Small inputs on which other tools went wrong, for 1, 2, 3, 4 and 8 devices, CPU and simulated.
#include <gtest/gtest.h>

#include <filesystem>
#include <map>

#include "tests/train/contract_net.h"
#include "tests/train/tiny_model.h"
#include "yoke/checkpoint/safetensors.h"
#include "yoke/train/trainer.h"

namespace yoke {
namespace {

using testing::ContractNet;
using testing::every_device;
using testing::TinyModel;

struct Steps {
  std::vector<StepEvent> all;
  std::function<void(const Event&)> sink() {
    return [this](const Event& event) {
      if (auto* e = std::get_if<StepEvent>(&event)) all.push_back(*e);
    };
  }
};

// Batches of b = 1 … 2N rows: shares may be empty, and every row counts once.
TEST(Cases, batches_of_any_size_on_any_devices) {
  const TinyModel tiny("sizes", 2);
  std::map<int64_t, StepEvent> truth;
  for (const auto& devices : every_device()) {
    const auto n = int64_t(parse_devices(devices).size());
    for (const std::string mode : {"fast", "exact"})
      for (int64_t b = 1; b <= 2 * n; b += n > 4 ? 3 : 1) {
        const auto rows = tiny.write_rows("rows.tsv", b, uint64_t(b));
        Steps steps;
        Trainer trainer({.model = tiny.model_folder(),
                         .devices = devices,
                         .batch_size = 64,
                         .epochs = 1,
                         .mode = mode,
                         .logging_steps = 1,
                         .on_event = steps.sink()});
        trainer.train(rows);
        ASSERT_EQ(steps.all.size(), 1u);
        const auto& step = steps.all[0];
        EXPECT_EQ(step.rows, b);
        const auto& first = truth.try_emplace(b, step).first->second;
        EXPECT_NEAR(step.loss, first.loss, 1e-5 * first.loss) << devices << " " << b;
        EXPECT_NEAR(step.grad_norm, first.grad_norm, 1e-5 * first.grad_norm) << devices << " " << b;
        EXPECT_EQ(step.tokens, first.tokens);
      }
  }
}

// Ten rows one at a time: most devices have nothing to do in every step.
TEST(Cases, ten_rows_one_a_step) {
  const TinyModel tiny("ten", 2);
  const auto rows = tiny.write_rows("rows.tsv", 10);
  std::vector<StepEvent> first;
  for (const auto& devices : every_device()) {
    Steps steps;
    Trainer trainer({.model = tiny.model_folder(),
                     .devices = devices,
                     .batch_size = 1,
                     .epochs = 1,
                     .logging_steps = 1,
                     .on_event = steps.sink()});
    EXPECT_EQ(trainer.train(rows).steps, 10);
    if (first.empty()) first = steps.all;
    for (size_t i = 0; i < 10; ++i) {
      EXPECT_EQ(steps.all[i].rows, 1);
      EXPECT_NEAR(steps.all[i].loss, first[i].loss, 1e-5 * first[i].loss) << devices << " " << i;
    }
  }
}

TEST(Cases, a_hundred_repeats_of_a_step_on_two_devices_are_one_result) {
  for (const auto& devices : {"2xcpu", "2xsim"}) {
    const auto first = testing::train_net({.devices = devices, .steps = 1});
    for (int repeat = 0; repeat < 100; ++repeat)
      ASSERT_EQ(testing::train_net({.devices = devices, .steps = 1}).digest, first.digest);
  }
}

TEST(Cases, fifty_exact_steps_have_one_digest_for_any_devices_and_buckets) {
  const auto first = testing::train_net({.exact = true, .steps = 50});
  for (const auto& devices : every_device())
    for (const int64_t bucket_bytes : {int64_t{1}, int64_t{25} << 20})
      EXPECT_EQ(testing::train_net(
                    {.devices = devices, .exact = true, .bucket_bytes = bucket_bytes, .steps = 50})
                    .digest,
                first.digest)
          << devices << " " << bucket_bytes;
}

// What is evaluated before saving is evaluated after loading, running statistics included.
TEST(Cases, a_network_with_batch_normalisation_scores_the_same_after_loading) {
  const auto batch = testing::batch_of(99, 16, false);
  const auto folder =
      std::filesystem::temp_directory_path() / ("yoke-cases-" + std::to_string(::getpid()));
  std::filesystem::create_directories(folder);
  for (const bool exact : {false, true})
    for (const auto& devices : every_device()) {
      const auto run = testing::train_net({.devices = devices, .exact = exact});
      run.net->to(c10::Device(c10::kCPU));
      run.net->eval();
      c10::NoGradGuard no_grad;
      const auto before = run.net->loss_sum(batch.ids, batch.labels);
      StateDict state;
      for (const auto& item : run.net->named_parameters()) state.insert(item.key(), item.value());
      for (const auto& item : run.net->named_buffers()) state.insert(item.key(), item.value());
      write_safetensors(folder / "net.safetensors", state);
      auto loaded = std::make_shared<ContractNet>(ContractNet::Parts{});
      const auto file = read_safetensors(folder / "net.safetensors");
      for (auto& item : loaded->named_parameters())
        if (const auto* tensor = file.find(item.key())) item.value().copy_(*tensor);
      for (auto& item : loaded->named_buffers()) item.value().copy_(file.at(item.key()));
      loaded->eval();
      EXPECT_TRUE(at::equal(loaded->loss_sum(batch.ids, batch.labels), before)) << devices;
      EXPECT_FALSE(at::equal(loaded->norm->running_mean, at::zeros({ContractNet::width})));
    }
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace yoke
