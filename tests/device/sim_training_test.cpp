// Whole networks on simulated devices train to the CPU's bits: modules moved by Module::to, stock
// optimisers, clipping, and four devices at once from four threads.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/transformerlayer.h>
#include <torch/nn/utils/clip_grad.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/sgd.h>

#include <cstring>
#include <thread>

#include "yoke/device/devices.h"
#include "yoke/device/sim_device.h"

namespace yoke {
namespace {

struct Net : torch::nn::Module {
  Net(double dropout)
      : embedding(register_module("embedding", torch::nn::Embedding(40, 16))),
        layer(register_module(
            "layer",
            torch::nn::TransformerEncoderLayer(
                torch::nn::TransformerEncoderLayerOptions(16, 4).dim_feedforward(32).dropout(
                    dropout)))),
        head(register_module("head", torch::nn::Linear(16, 3))) {}
  at::Tensor forward(const at::Tensor& ids) { return head(layer(embedding(ids)).mean(0)); }
  torch::nn::Embedding embedding;
  torch::nn::TransformerEncoderLayer layer;
  torch::nn::Linear head;
};

enum class Optimizer { sgd, adam, adamw, fused };

std::vector<at::Tensor> train(c10::Device device, Optimizer kind, double dropout = 0,
                              int steps = 5) {
  at::set_num_threads(1);
  Net net(dropout);
  int64_t seed = 1;
  {
    c10::NoGradGuard no_grad;
    for (auto& p : net.parameters())
      p.copy_(at::randn(p.sizes(), at::make_generator<at::CPUGeneratorImpl>(seed++)) * 0.3);
  }
  net.to(device);
  std::unique_ptr<torch::optim::Optimizer> optimizer;
  const auto parameters = net.parameters();
  if (kind == Optimizer::sgd)
    optimizer = std::make_unique<torch::optim::SGD>(
        parameters, torch::optim::SGDOptions(0.1).momentum(0.9).weight_decay(0.01));
  if (kind == Optimizer::adam) optimizer = std::make_unique<torch::optim::Adam>(parameters, 1e-2);
  if (kind == Optimizer::adamw) optimizer = std::make_unique<torch::optim::AdamW>(parameters, 1e-2);
  std::vector<at::Tensor> first, second, steps_done;
  for (const auto& p : parameters) {
    first.push_back(at::zeros_like(p));
    second.push_back(at::zeros_like(p));
    steps_done.push_back(at::zeros({}, p.options().requires_grad(false)));
  }
  std::vector<at::Tensor> results;
  auto batches = at::make_generator<at::CPUGeneratorImpl>(77);
  for (int step = 0; step < steps; ++step) {
    const auto ids = at::randint(40, {7, 9}, batches, at::kLong).to(device);
    const auto labels = at::randint(3, {9}, batches, at::kLong).to(device);
    for (auto& p : net.parameters()) p.mutable_grad() = at::Tensor();
    auto loss = at::cross_entropy_loss(net.forward(ids), labels);
    loss.backward();
    results.push_back(at::scalar_tensor(torch::nn::utils::clip_grad_norm_(parameters, 0.5)));
    results.push_back(loss.detach().cpu());
    if (optimizer) {
      optimizer->step();
      continue;
    }
    c10::NoGradGuard no_grad;
    std::vector<at::Tensor> gradients;
    for (const auto& p : parameters) gradients.push_back(p.grad());
    at::_foreach_add_(steps_done, 1);
    at::_fused_adamw_(parameters, gradients, first, second, {}, steps_done, 1e-2, 0.9, 0.999, 0.01,
                      1e-8, false, false);
  }
  for (const auto& p : net.parameters()) results.push_back(p.detach().cpu());
  return results;
}

void expect_same_bits(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i)
    EXPECT_EQ(std::memcmp(a[i].const_data_ptr(), b[i].const_data_ptr(), a[i].nbytes()), 0)
        << i << ": " << (a[i] - b[i]).abs().max().item<double>();
}

TEST(SimTraining, a_transformer_trains_to_the_cpus_bits_with_every_optimiser) {
  const auto device = parse_devices("sim:3").front();
  for (auto kind : {Optimizer::sgd, Optimizer::adam, Optimizer::adamw, Optimizer::fused}) {
    SCOPED_TRACE(int(kind));
    expect_same_bits(train(c10::kCPU, kind), train(device, kind));
  }
}

TEST(SimTraining, four_threads_on_four_devices_give_what_one_after_another_gives) {
  const auto devices = parse_devices("4xsim");
  const auto run = [&](size_t i) { return train(devices[i], Optimizer::adamw, 0.1, 20); };
  std::vector<std::vector<at::Tensor>> one_by_one(4), at_once(4);
  at::manual_seed(11);
  for (size_t i = 0; i < 4; ++i) one_by_one[i] = run(i);
  at::manual_seed(11);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < 4; ++i) threads.emplace_back([&, i] { at_once[i] = run(i); });
  for (auto& thread : threads) thread.join();
  for (size_t i = 0; i < 4; ++i) {
    SCOPED_TRACE(i);
    expect_same_bits(one_by_one[i], at_once[i]);
  }
}

TEST(SimTraining, a_backward_on_the_cpu_does_not_fix_the_devices_that_come_later) {
  auto x = at::ones({2}).requires_grad_();
  x.sum().backward();
  const auto last = parse_devices("sim:15").front();
  auto y = at::ones({2}).to(last).requires_grad_();
  (y * 3).sum().backward();
  EXPECT_EQ(y.grad().sum().item<float>(), 6);
}

TEST(SimTraining, a_module_moves_there_and_back_and_stays_the_same_parameters) {
  const auto device = parse_devices("sim:1").front();
  torch::nn::Linear linear(3, 2);
  auto parameter = linear->weight;
  const auto values = parameter.detach().clone();
  linear->to(device);
  EXPECT_TRUE(parameter.is_same(linear->weight));
  EXPECT_EQ(parameter.device(), device);
  linear->forward(at::ones({1, 3}, device)).sum().backward();
  EXPECT_EQ(parameter.grad().device(), device);
  linear->to(c10::kCPU);
  EXPECT_TRUE(at::equal(parameter.detach(), values));
}

}  // namespace
}  // namespace yoke
