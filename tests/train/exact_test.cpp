// The contract on a network that is hard to divide: mode exact gives the same bits, and mode fast
// the same numbers within rounding, on any devices.
#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <torch/nn/utils/clip_grad.h>
#include <torch/optim/adamw.h>

#include <cmath>

#include "tests/train/contract_net.h"

namespace yoke {
namespace {

using testing::ContractNet;
using testing::every_device;
using testing::RunOptions;
using testing::train_net;

void expect_near(const std::vector<double>& a, const std::vector<double>& b, double relative,
                 const std::string& where) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i)
    EXPECT_NEAR(a[i], b[i], relative * std::abs(b[i])) << where << " step " << i;
}

TEST(Exact, one_digest_of_weights_moments_and_buffers_on_any_devices) {
  const auto first = train_net({.exact = true});
  for (const auto& devices : every_device()) {
    const auto run = train_net({.devices = devices, .exact = true});
    EXPECT_EQ(run.digest, first.digest) << devices;
    EXPECT_EQ(run.losses, first.losses) << devices;
    EXPECT_EQ(run.norms, first.norms) << devices;
    for (const auto& buffers : run.replica_buffers)
      EXPECT_EQ(buffers, first.replica_buffers[0]) << devices;
  }
}

TEST(Exact, neither_buckets_nor_cores_change_a_bit) {
  const RunOptions options{.devices = "2xcpu", .exact = true, .micro_rows = 2};
  const auto first = train_net(options);
  const int threads = at::get_num_threads();
  for (const int cores : {1, 2, 3, 5})
    for (const int64_t bucket : {int64_t{1}, int64_t{1} << 20})
      for (const auto& devices : {"cpu", "3xcpu", "2xsim"}) {
        at::set_num_threads(cores);
        auto here = options;
        here.devices = devices;
        here.bucket_bytes = bucket;
        EXPECT_EQ(train_net(here).digest, first.digest) << devices << " " << cores << " cores";
      }
  at::set_num_threads(threads);
}

TEST(Exact, the_number_of_shards_and_of_rows_may_be_any) {
  for (const int64_t shards : {1, 3, 5, 8, 13})
    for (const int64_t rows : {1, 2, 5, 16}) {  // fewer rows than shards, too
      const RunOptions options{
          .exact = true, .shards = shards, .rows = rows, .steps = 2, .parts = {.norm = false}};
      const auto first = train_net(options);
      for (const auto& devices : {"2xcpu", "3xsim", "8xsim"}) {
        auto here = options;
        here.devices = devices;
        if (parse_devices(devices).size() <= size_t(shards)) {
          EXPECT_EQ(train_net(here).digest, first.digest)
              << devices << " " << shards << " " << rows;
        }
      }
    }
}

TEST(Exact, another_number_of_shards_or_micro_batches_is_another_rounding_of_the_same_run) {
  const RunOptions options{.exact = true, .parts = {.norm = false}};
  const auto eight = train_net(options);
  for (const auto& [shards, micro] : std::vector<std::pair<int64_t, int64_t>>{{5, 100}, {8, 1}}) {
    auto other = options;
    other.shards = shards;
    other.micro_rows = micro;
    const auto run = train_net(other);
    EXPECT_NE(run.digest, eight.digest);
    expect_near(run.losses, eight.losses, 1e-5, "shards");
  }
}

// The same network in PyTorch's own loop.
std::pair<std::vector<double>, std::vector<double>> plain_loop(const RunOptions& o,
                                                               std::shared_ptr<ContractNet>& net) {
  at::manual_seed(1);
  net = std::make_shared<ContractNet>(o.parts);
  std::vector<at::Tensor> decayed, plain;
  for (const auto& item : net->named_parameters())
    if (item.key() != "tied")
      (item.key().find("bias") == std::string::npos ? decayed : plain).push_back(item.value());
  std::vector<torch::optim::OptimizerParamGroup> groups;
  for (const auto& [list, decay] : {std::pair(decayed, 0.1), std::pair(plain, 0.0)}) {
    auto options = std::make_unique<torch::optim::AdamWOptions>(1e-2);
    options->weight_decay(decay);
    groups.emplace_back(list, std::move(options));
  }
  torch::optim::AdamW adam(groups);
  std::vector<double> losses, norms;
  for (int64_t step = 0; step < o.steps; ++step) {
    const auto batch = testing::batch_of(step, o.rows, o.evens);
    adam.zero_grad();
    auto loss = net->loss_sum(batch.ids, batch.labels) / double(batch.targets);
    loss.backward();
    auto all = decayed;
    all.insert(all.end(), plain.begin(), plain.end());
    norms.push_back(torch::nn::utils::clip_grad_norm_(all, o.max_grad_norm));
    adam.step();
    losses.push_back(loss.item<double>());
  }
  return {losses, norms};
}

TEST(Contract, both_modes_take_the_steps_of_pytorchs_own_loop) {
  for (const bool evens : {false, true}) {  // true: the odd branch is used by nobody
    RunOptions options{.parts = {.norm = false, .dropout = 0}, .evens = evens};
    std::shared_ptr<ContractNet> net;
    const auto [losses, norms] = plain_loop(options, net);
    for (const bool exact : {false, true})
      for (const auto& devices : every_device())
        for (const int64_t micro : {3, 1000}) {
          options.devices = devices;
          options.exact = exact;
          options.micro_rows = micro;
          const auto run = train_net(options);
          const std::string where = devices + (exact ? " exact" : " fast");
          expect_near(run.losses, losses, 1e-5, where);
          expect_near(run.norms, norms, 1e-5, where);
          const auto truth = net->named_parameters();
          for (const auto& item : run.net->named_parameters())
            EXPECT_LE((item.value().cpu() - truth[item.key()]).abs().max().item<double>(), 2e-5)
                << where << " " << item.key();
          // No gradient: no decay, no moments.
          EXPECT_TRUE(at::equal(run.net->never.cpu(), at::ones({7})));
          EXPECT_EQ(at::equal(run.net->odd.cpu(), at::ones({16}) * 2), evens);
          EXPECT_TRUE(run.net->tied.is_same(run.net->table->weight));
        }
  }
}

TEST(Contract,
     batch_normalisation_is_synchronised_in_fast_and_its_statistics_are_those_of_pytorch) {
  RunOptions options{.parts = {.norm = true, .dropout = 0}};
  std::shared_ptr<ContractNet> net;
  const auto [losses, norms] = plain_loop(options, net);
  for (const auto& devices : every_device()) {
    options.devices = devices;
    const auto run = train_net(options);
    expect_near(run.losses, losses, 1e-5, devices);
    expect_near(run.norms, norms, 1e-4, devices);
    EXPECT_TRUE(
        at::allclose(run.net->norm->running_mean.cpu(), net->norm->running_mean, 1e-4, 1e-6))
        << devices;
    EXPECT_TRUE(at::allclose(run.net->norm->running_var.cpu(), net->norm->running_var, 1e-4, 1e-6))
        << devices;
    EXPECT_EQ(run.net->norm->num_batches_tracked.item<int64_t>(), options.steps);
    for (const auto& buffers : run.replica_buffers) EXPECT_EQ(buffers, run.replica_buffers[0]);
  }
}

// In exact a shard normalises by itself, so its loss is another one; what it says of all rows of
// the step, merged by counts, is not: mean and variance of the whole batch, moved once.
TEST(Contract, running_statistics_in_exact_are_those_of_the_whole_batch) {
  const RunOptions options{.exact = true, .steps = 1, .parts = {.norm = true, .dropout = 0}};
  std::shared_ptr<ContractNet> net;
  plain_loop(options, net);
  for (const auto& devices : {"cpu", "3xcpu", "8xsim"}) {
    auto here = options;
    here.devices = devices;
    here.rows = 32;
    const auto run = train_net(here);
    EXPECT_TRUE(
        at::allclose(run.net->norm->running_mean.cpu(), net->norm->running_mean, 1e-5, 1e-7));
    EXPECT_TRUE(at::allclose(run.net->norm->running_var.cpu(), net->norm->running_var, 1e-5, 1e-7));
    EXPECT_EQ(run.net->norm->num_batches_tracked.item<int64_t>(), 1);
  }
}

TEST(Contract, fast_with_stock_dropout_and_normalisation_agrees_within_rounding) {
  const auto first = train_net({});
  for (const auto& devices : every_device()) {
    const auto run = train_net({.devices = devices});
    expect_near(run.losses, first.losses, 1e-5, devices);
    EXPECT_EQ(train_net({.devices = devices}).digest, run.digest) << devices << " repeats itself";
  }
}

TEST(Contract, several_replicas_on_one_device_cannot_share_statistics_and_say_so) {
  try {
    train_net({.devices = "2xsim:1"});
    FAIL();
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("several replicas on one device"), std::string::npos);
  }
  EXPECT_EQ(train_net({.devices = "2xsim:1", .exact = true}).digest,
            train_net({.exact = true}).digest);  // nobody waits in exact
}

TEST(Contract, a_step_that_fails_leaves_parameters_and_buffers_as_they_were) {
  for (const bool exact : {false, true})
    for (const auto& devices : {"cpu", "2xcpu", "4xsim"}) {
      at::manual_seed(1);
      auto net = std::make_shared<ContractNet>(ContractNet::Parts{});
      ReplicaSet replicas(
          net, [] { return std::make_shared<ContractNet>(ContractNet::Parts{}); },
          parse_devices(devices));
      const auto before =
          testing::digest_of(net->parameters()) + testing::digest_of(net->buffers());
      const auto batch = testing::batch_of(0, 32, false);
      const size_t shards = exact ? 8 : size_t(replicas.size());
      const StepInput input{.exact = exact,
                            .targets = double(batch.targets),
                            .micro_batches = std::vector<size_t>(shards, 2),
                            .learning_rate = 1e-2};
      EXPECT_THROW(run_step(replicas, input, {.weight_decay = {0}},
                            {.forward =
                                 [&](const Worker& worker, size_t shard, size_t m) {
                                   auto loss = static_cast<ContractNet&>(worker.module)
                                                   .loss_sum(batch.ids.to(worker.device),
                                                             batch.labels.to(worker.device));
                                   if (m == 1 && shard + 1 == shards)
                                     throw std::runtime_error("injected");
                                   return MicroLoss{loss, loss.item<double>()};
                                 },
                             .slots = [](size_t, size_t) { return std::vector<int64_t>(32, 0); },
                             .rows = [](int, size_t) { return std::string("rows"); }}),
                   Error);
      EXPECT_EQ(testing::digest_of(net->parameters()) + testing::digest_of(net->buffers()), before);
    }
}

}  // namespace
}  // namespace yoke
