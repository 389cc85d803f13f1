// The step on a toy network: the optimiser is torch's AdamW whatever the devices, accumulation and
// buckets, unused parameters are left alone, and what is not finite stops before anything changes.
#include "yoke/train/step.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/nn/utils/clip_grad.h>
#include <torch/optim/adamw.h>

#include <limits>

#include "yoke/core/error.h"
#include "yoke/device/devices.h"

namespace yoke {
namespace {

struct Net : torch::nn::Module {
  at::Tensor a, b, bias, rare;
  Net() {
    a = register_parameter("a", at::empty({6, 70000 / 6}));  // more than one chunk of flat work
    b = register_parameter("b", at::empty({6, 1}));
    bias = register_parameter("bias", at::empty({1}));
    rare = register_parameter("rare", at::empty({9}));
  }
  at::Tensor loss_sum(const at::Tensor& x, bool use_rare) {
    auto out = (x.matmul(a).tanh().matmul(a.t()).matmul(b) + bias).square().sum();
    return use_rare ? out + rare.square().sum() * double(x.size(0)) : out;
  }
};

std::shared_ptr<Net> make_net() {
  at::manual_seed(3);
  auto net = std::make_shared<Net>();
  c10::NoGradGuard no_grad;
  for (auto& p : net->parameters()) p.normal_(0, 0.3);
  return net;
}

constexpr int64_t rows = 10;
at::Tensor input(int64_t step) {
  at::manual_seed(uint64_t(100 + step));
  return at::randn({rows, 6});
}

StepWork work(
    std::function<MicroLoss(const Worker&, size_t, size_t)> forward,
    std::function<std::string(int, size_t)> rows = [](int, size_t) { return "rows"; }) {
  return {.forward = std::move(forward),
          .slots = [](size_t, size_t) { return std::vector<int64_t>(); },
          .rows = std::move(rows)};
}

int decay_group(const std::string& name) { return name.find("bias") != std::string::npos; }

TEST(Step, equals_torchs_adamw_with_clipping_for_any_devices) {
  constexpr int64_t steps = 6;
  auto plain = make_net();
  std::vector<torch::optim::OptimizerParamGroup> groups;
  auto decayed = std::make_unique<torch::optim::AdamWOptions>(1e-2);
  decayed->weight_decay(0.1).eps(1e-8);
  auto free = std::make_unique<torch::optim::AdamWOptions>(1e-2);
  free->weight_decay(0).eps(1e-8);
  groups.emplace_back(std::vector<at::Tensor>{plain->a, plain->b, plain->rare}, std::move(decayed));
  groups.emplace_back(std::vector<at::Tensor>{plain->bias}, std::move(free));
  torch::optim::AdamW adam(groups);
  std::vector<double> losses, norms;
  for (int64_t step = 0; step < steps; ++step) {
    adam.zero_grad();
    auto loss = plain->loss_sum(input(step), step % 2 == 1) / double(rows);
    loss.backward();
    norms.push_back(torch::nn::utils::clip_grad_norm_(plain->parameters(), 1.0));
    adam.step();
    losses.push_back(loss.item<double>());
  }
  for (const auto& devices : {"cpu", "2xcpu", "3xcpu", "2xsim", "4xsim", "sim:0+cpu"}) {
    for (int64_t micro_rows : {1, 4, 100}) {
      auto net = make_net();
      ReplicaSet replicas(net, [] { return std::make_shared<Net>(); }, parse_devices(devices),
                          {.bucket_bytes = 1 << 16, .group = decay_group});
      for (int64_t step = 0; step < steps; ++step) {
        const auto x = input(step);
        StepInput in{
            .step = step, .targets = double(rows), .learning_rate = 1e-2, .max_grad_norm = 1};
        std::vector<std::vector<at::Tensor>> parts(size_t(replicas.size()),
                                                   std::vector<at::Tensor>{});
        const auto shares = x.tensor_split(replicas.size());
        for (int r = 0; r < replicas.size(); ++r) {
          if (shares[size_t(r)].size(0) > 0)
            for (auto& part : shares[size_t(r)].split(micro_rows)) parts[size_t(r)].push_back(part);
          in.micro_batches.push_back(parts[size_t(r)].size());
        }
        const auto out =
            run_step(replicas, in, {.weight_decay = {0.1, 0.0}},
                     work([&](const Worker& worker, size_t shard, size_t m) {
                       auto loss = static_cast<Net&>(worker.module)
                                       .loss_sum(parts[shard][m].to(worker.device), step % 2 == 1);
                       return MicroLoss{loss, loss.item<double>()};
                     }));
        EXPECT_NEAR(out.loss_sum / rows, losses[size_t(step)], 1e-5 * losses[size_t(step)]);
        EXPECT_NEAR(out.grad_norm, norms[size_t(step)], 1e-5 * norms[size_t(step)]);
      }
      for (int rank = 0; rank < replicas.size(); ++rank) {
        const auto own = replicas.replica(rank).module().parameters(), truth = plain->parameters();
        for (size_t i = 0; i < own.size(); ++i)
          EXPECT_LE((own[i].cpu() - truth[i]).abs().max().item<double>(), 2e-5)
              << devices << " micro " << micro_rows << " rank " << rank << " parameter " << i;
      }
    }
  }
}

TEST(Step, what_is_not_finite_names_step_device_and_rows_and_changes_nothing) {
  for (const auto& devices : {"cpu", "2xcpu", "4xsim"})
    for (const bool in_loss : {true, false}) {
      auto net = make_net();
      ReplicaSet replicas(net, [] { return std::make_shared<Net>(); }, parse_devices(devices), {});
      std::vector<at::Tensor> before;
      for (auto& p : net->parameters()) before.push_back(p.detach().cpu().clone());
      StepInput in{.step = 6, .targets = 4, .learning_rate = 1e-2, .max_grad_norm = 1};
      in.micro_batches.assign(size_t(replicas.size()), 1);
      const int bad = replicas.size() - 1;
      try {
        run_step(replicas, in, {.weight_decay = {0}},
                 work(
                     [&](const Worker& worker, size_t shard, size_t) {
                       auto loss = static_cast<Net&>(worker.module)
                                       .loss_sum(at::ones({1, 6}).to(worker.device), false);
                       if (int(shard) == bad)
                         loss = loss * std::numeric_limits<double>::quiet_NaN();
                       return MicroLoss{loss, int(shard) == bad && in_loss ? std::nan("") : 1.0};
                     },
                     [](int shard, size_t) {
                       return shard < 0 ? std::string("all rows")
                                        : "rows of " + std::to_string(shard);
                     }));
        FAIL();
      } catch (const Error& e) {
        const std::string text = e.what();
        EXPECT_NE(text.find("step 7"), std::string::npos) << text;
        EXPECT_NE(text.find(in_loss ? "rows of " + std::to_string(bad) : std::string("all rows")),
                  std::string::npos)
            << text;
        if (in_loss) {
          EXPECT_NE(text.find(replicas.replica(bad).device().str()), std::string::npos) << text;
        }
      }
      const auto after = net->parameters();
      for (size_t i = 0; i < after.size(); ++i) EXPECT_TRUE(at::equal(after[i].cpu(), before[i]));
    }
}

TEST(Step, an_error_in_forward_is_told_with_its_place) {
  auto net = make_net();
  ReplicaSet replicas(net, [] { return std::make_shared<Net>(); }, parse_devices("2xcpu"), {});
  StepInput in{.step = 0, .targets = 4, .micro_batches = {1, 3}, .learning_rate = 1e-2};
  try {
    run_step(replicas, in, {.weight_decay = {0}},
             work(
                 [&](const Worker& worker, size_t shard, size_t m) {
                   if (shard == 1 && m == 2) throw std::runtime_error("the cause.\nframe #0: x");
                   auto loss = static_cast<Net&>(worker.module).loss_sum(at::ones({1, 6}), false);
                   return MicroLoss{loss, 1.0};
                 },
                 [](int shard, size_t m) {
                   return "rows " + std::to_string(shard) + "/" + std::to_string(m);
                 }));
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.message(), "step 1 on cpu, rows 1/2: the cause");
  }
}

}  // namespace
}  // namespace yoke
