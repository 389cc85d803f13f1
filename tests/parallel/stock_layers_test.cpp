// torch's own dropout and batch normalisation layers inside a replica: masks by counter, statistics
// over all rows of the moment; outside they are PyTorch's.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/dropout.h>

#include <cmath>

#include "yoke/device/devices.h"
#include "yoke/parallel/coordination.h"
#include "yoke/parallel/replica_context.h"
#include "yoke/parallel/replica_set.h"

namespace yoke {
namespace {

at::Tensor inside(const std::vector<int64_t>& slots, const std::function<at::Tensor()>& call,
                  int64_t step = 3, int64_t shard = 0) {
  ReplicaContext context{.seed = 11, .step = step, .shard = shard, .slots = slots};
  const ReplicaContextGuard guard(context);
  return call();
}

const std::vector<int64_t> all_slots{0, 1, 2, 3, 4, 5, 6, 7};

TEST(StockDropout, a_row_has_its_own_mask_wherever_it_is_computed) {
  for (const auto& device : parse_devices("cpu+sim:1")) {
    const auto ones = at::ones({8, 1000}).to(device);
    torch::nn::Dropout layer(0.5);
    const auto whole = inside(all_slots, [&] { return layer(ones); }).cpu();
    EXPECT_FALSE(at::equal(whole[0], whole[4]));
    EXPECT_NEAR(whole.ne(0).to(at::kFloat).mean().item<double>(), 0.5, 0.02);
    EXPECT_EQ(whole.max().item<float>(), 2.f);
    const auto part = inside({4, 5, 7}, [&] { return layer(ones.narrow(0, 0, 3)); }).cpu();
    EXPECT_TRUE(at::equal(part, whole.index_select(0, at::tensor({4, 5, 7}))));
    // Another step, and the second call of a forward, have other masks.
    EXPECT_FALSE(at::equal(inside(
                               all_slots, [&] { return layer(ones); }, 4)
                               .cpu(),
                           whole));
    const auto second = inside(all_slots, [&] {
      layer(ones);
      return layer(ones);
    });
    EXPECT_FALSE(at::equal(second.cpu(), whole));
    // Across the words of a Philox block elements are independent: adjacent ones agree half the
    // time.
    const auto kept = whole.ne(0);
    EXPECT_NEAR(
        kept.narrow(1, 0, 999).eq(kept.narrow(1, 1, 999)).to(at::kFloat).mean().item<double>(), 0.5,
        0.03);
  }
}

TEST(StockDropout, every_kind_keeps_its_meaning) {
  const auto x = at::ones({8, 6, 5, 5});
  const auto features = inside(all_slots, [&] { return torch::nn::Dropout2d(0.5)(x); });
  const auto flat = features.flatten(2);
  EXPECT_TRUE(at::equal(flat.amax(2), flat.amin(2)));  // whole features
  EXPECT_GT(flat.amax(2).eq(0).sum().item<int64_t>(), 5);
  EXPECT_TRUE(at::equal(
      inside({6}, [&] { return torch::nn::Dropout2d(0.5)(x.narrow(0, 0, 1)); })[0], features[6]));
  // Alpha dropout of standard normal values keeps mean 0 and deviation 1.
  at::manual_seed(1);
  const auto normal = at::randn({8, 20000});
  for (const auto& out : {inside(all_slots, [&] { return torch::nn::AlphaDropout(0.3)(normal); }),
                          inside(all_slots, [&] {
                            return torch::nn::FeatureAlphaDropout(0.3)(normal.view({8, 5000, 4}));
                          })}) {
    EXPECT_NEAR(out.mean().item<double>(), 0, 0.02);
    EXPECT_NEAR(out.std().item<double>(), 1, 0.02);
  }
  auto in_place = at::ones({8, 100});
  const auto same = inside(all_slots, [&] {
    return torch::nn::Dropout(torch::nn::DropoutOptions(0.5).inplace(true))(in_place);
  });
  EXPECT_EQ(same.data_ptr(), in_place.data_ptr());
  EXPECT_TRUE(at::equal(same, inside(all_slots, [&] {
                          return torch::nn::Dropout(0.5)(at::ones({8, 100}));
                        })));
  EXPECT_TRUE(
      at::equal(inside(all_slots, [&] { return torch::nn::Dropout(1.0)(x); }), at::zeros_like(x)));
  torch::nn::Dropout evaluating(0.5);
  evaluating->eval();
  EXPECT_TRUE(at::equal(inside(all_slots, [&] { return evaluating(x); }), x));
}

TEST(StockDropout, the_gradient_is_that_of_the_mask) {
  auto x = at::ones({8, 50}).requires_grad_();
  const auto out = inside(all_slots, [&] { return torch::nn::Dropout(0.25)(x); });
  out.sum().backward();
  EXPECT_TRUE(at::equal(x.grad(), out.detach()));
}

TEST(StockDropout, without_rows_in_front_the_shard_keys_the_mask) {
  const auto x = at::ones({5, 300});  // eight rows in the micro-batch, five in front here
  torch::nn::Dropout layer(0.5);
  const auto a = inside(
      all_slots, [&] { return layer(x); }, 3, 0);
  EXPECT_TRUE(at::equal(a, inside(
                               {1, 2, 3}, [&] { return layer(x); }, 3, 0)));
  EXPECT_FALSE(at::equal(a, inside(
                                all_slots, [&] { return layer(x); }, 3, 1)));
}

TEST(StockDropout, outside_a_replica_it_is_pytorchs) {
  const auto x = at::ones({8, 100});
  at::manual_seed(5);
  const auto a = torch::nn::Dropout(0.5)(x);
  at::manual_seed(5);
  auto noise = at::empty_like(x).bernoulli_(0.5).div_(0.5);
  EXPECT_TRUE(at::equal(a, x * noise));
}

struct Norm {
  torch::nn::BatchNorm2d layer;
  at::Tensor out, grad_x;
};

Norm plain_norm(const at::Tensor& x, const at::Tensor& grad) {
  Norm norm{torch::nn::BatchNorm2d(3), {}, {}};
  auto leaf = x.clone().requires_grad_();
  norm.out = norm.layer(leaf);
  norm.out.backward(grad);
  norm.grad_x = leaf.grad();
  return norm;
}

TEST(StockBatchNorm, replicas_normalise_over_what_all_of_them_see) {
  at::manual_seed(7);
  const auto x = at::randn({9, 3, 4, 4}) * 2 + 1, grad = at::randn({9, 3, 4, 4});
  const auto whole = plain_norm(x, grad);
  const std::vector<std::pair<int64_t, int64_t>> parts{{0, 4}, {4, 3}, {7, 2}};
  for (const bool simulated : {false, true}) {
    auto exchange = std::make_shared<MomentExchange>(std::vector<size_t>{1, 1, 1});
    std::vector<at::Tensor> outs(3), grads(3), weight_grads(3);
    std::vector<ReplicaContext> contexts(3);
    ThreadTeam team(3);
    team.on_failure([&] { exchange->abort(); });
    const auto devices = parse_devices(simulated ? "3xsim" : "3xcpu");
    team.run([&](int rank) {
      const auto r = size_t(rank);
      torch::nn::BatchNorm2d layer(3);
      layer->to(devices[r]);
      auto leaf =
          x.narrow(0, parts[r].first, parts[r].second).to(devices[r]).clone().requires_grad_();
      contexts[r] = {.rank = rank, .exchange = exchange};
      at::Tensor out;
      {
        const ReplicaContextGuard guard(contexts[r]);
        out = layer(leaf);
      }
      EXPECT_TRUE(at::equal(layer->running_mean.cpu(), at::zeros({3})));  // left to the step's end
      out.backward(grad.narrow(0, parts[r].first, parts[r].second).to(devices[r]));
      outs[r] = out.detach().cpu();
      grads[r] = leaf.grad().cpu();
      weight_grads[r] = layer->weight.grad().cpu();
    });
    EXPECT_TRUE(at::allclose(at::cat(outs), whole.out, 1e-5, 1e-5));
    EXPECT_TRUE(at::allclose(at::cat(grads), whole.grad_x, 1e-5, 1e-5));
    EXPECT_TRUE(at::allclose(weight_grads[0] + weight_grads[1] + weight_grads[2],
                             whole.layer->weight.grad(), 1e-5, 1e-4));
    EXPECT_EQ(contexts[1].norms.at(0).moments.count, 3 * 16);
  }
}

TEST(StockBatchNorm, a_replica_that_takes_another_way_is_named) {
  auto exchange = std::make_shared<MomentExchange>(std::vector<size_t>{1, 1});
  ThreadTeam team(2);
  team.on_failure([&] { exchange->abort(); });
  std::string text;
  try {
    team.run([&](int rank) {
      ReplicaContext context{.rank = rank, .exchange = exchange};
      {
        const ReplicaContextGuard guard(context);
        if (rank == 0) torch::nn::BatchNorm1d(4)(at::ones({3, 4}).requires_grad_());
      }
      exchange->leave(rank, 0, Pass::forward);
    });
  } catch (const std::exception& e) {
    text = e.what();
  }
  EXPECT_NE(text.find("batch normalisation 1"), std::string::npos) << text;
  EXPECT_NE(text.find("replica 1"), std::string::npos) << text;
}

}  // namespace
}  // namespace yoke
