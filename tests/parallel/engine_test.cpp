// The engine on a toy network: any division of the rows over any devices gives the gradients of one
// plain backward, and failures end the call.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/autocast_mode.h>
#include <c10/core/InferenceMode.h>
#include <gtest/gtest.h>
#include <torch/nn/module.h>

#include <cmath>

#include "yoke/device/devices.h"
#include "yoke/device/sim_device.h"
#include "yoke/parallel/flat_layout.h"
#include "yoke/parallel/flat_ops.h"
#include "yoke/parallel/replica_set.h"

namespace yoke {
namespace {

// Two layers, an embedding, a tied weight used twice, and one parameter that only some rows use.
struct Toy : torch::nn::Module {
  at::Tensor table, first, second, bias, rare, never;
  Toy() {
    table = register_parameter("table", at::empty({20, 8}));
    first = register_parameter("first", at::empty({8, 8}));
    second = register_parameter("second", at::empty({3, 8}));
    bias = register_parameter("bias", at::empty({3}));
    rare = register_parameter("rare", at::empty({5}));
    never = register_parameter("never", at::empty({7}));
  }
  // ids (B), returns the sum of row losses.
  at::Tensor loss_sum(const at::Tensor& ids) {
    auto x = at::embedding(table, ids).matmul(first).tanh().matmul(first);
    auto out = x.matmul(second.t()) + bias;
    auto loss = out.square().sum();
    const auto count = ids.ge(15).sum().item<int64_t>();
    if (count > 0) loss = loss + rare.square().sum() * double(count);
    return loss;
  }
};

std::shared_ptr<Toy> make_toy(int64_t seed = 1) {
  at::manual_seed(uint64_t(seed));
  auto toy = std::make_shared<Toy>();
  c10::NoGradGuard no_grad;
  for (auto& p : toy->parameters()) p.normal_();
  return toy;
}

ReplicaSet::Factory factory() {
  return [] { return std::make_shared<Toy>(); };
}

std::vector<std::string> device_strings() {
  return {"cpu", "2xcpu", "3xcpu", "8xcpu", "1xsim", "2xsim", "4xsim", "sim:0+cpu"};
}

// Splits rows 0..n-1 as ids over the replicas, `micro` rows at a time; empty shares stay empty.
void train_step(Replica& replica, const std::vector<int64_t>& ids, size_t micro) {
  auto& toy = static_cast<Toy&>(replica.module());
  auto& reducer = replica.reducer();
  reducer.begin_step();
  std::vector<int64_t> mine;
  for (size_t i = size_t(replica.rank()); i < ids.size(); i += size_t(replica.world()))
    mine.push_back(ids[i]);
  for (size_t i = 0; i < mine.size(); i += micro) {
    const std::vector<int64_t> part(mine.begin() + int64_t(i),
                                    mine.begin() + int64_t(std::min(i + micro, mine.size())));
    reducer.begin_backward(i + micro >= mine.size());
    (toy.loss_sum(at::tensor(part, at::kLong).to(replica.device())) / double(ids.size()))
        .backward();
  }
  reducer.finish();
}

TEST(FlatLayout, offsets_are_aligned_and_do_not_depend_on_the_bucket_size) {
  const std::vector<std::pair<int64_t, int>> sizes{{5, 0}, {100, 1}, {17, 0}, {16, 1}, {0, 0}};
  const auto small = FlatLayout::make(sizes, 1), large = FlatLayout::make(sizes, 1 << 20);
  ASSERT_EQ(small.slices.size(), 5u);
  for (size_t s = 0; s < 5; ++s) {
    EXPECT_EQ(small.slices[s].offset, large.slices[s].offset);
    EXPECT_EQ(small.slices[s].offset % 16, 0);
  }
  EXPECT_EQ(small.buckets.size(), 4u);  // the empty one goes with its neighbour
  EXPECT_EQ(large.buckets.size(), 2u);  // one a group
  int64_t covered = 0;
  for (const auto& bucket : small.buckets) covered += bucket.end - bucket.begin;
  EXPECT_EQ(covered, small.total);
  for (size_t b = 1; b < small.buckets.size(); ++b)  // the last registered parameter leaves first
    EXPECT_GT(small.slices[small.buckets[b - 1].first_slice].parameter,
              small.slices[small.buckets[b].first_slice].parameter);
}

TEST(Engine, every_division_gives_the_gradients_of_one_plain_backward) {
  const std::vector<int64_t> ids{1, 3, 3, 16, 7, 19, 2, 11};
  auto plain = make_toy();
  (plain->loss_sum(at::tensor(ids, at::kLong)) / double(ids.size())).backward();
  double largest = 0, squares = 0;
  for (auto& p : plain->parameters())
    if (p.grad().defined()) {
      largest = std::max(largest, p.grad().abs().max().item<double>());
      squares += p.grad().to(at::kDouble).square().sum().item<double>();
    }
  for (const auto& devices : device_strings())
    for (int64_t bucket_bytes : {int64_t{1}, int64_t{25} << 20})
      for (size_t micro : {1, 3, 8}) {
        auto toy = make_toy();
        ReplicaSet replicas(toy, factory(), parse_devices(devices), {.bucket_bytes = bucket_bytes});
        std::vector<double> norms(size_t(replicas.size()));
        for (int repeat = 0; repeat < 2; ++repeat)  // the second step finds used buffers
          replicas.run([&](Replica& replica) {
            train_step(replica, ids, micro);
            norms[size_t(replica.rank())] = replica.gradient_norm();
          });
        const auto reference = plain->parameters();
        for (int rank = 0; rank < replicas.size(); ++rank) {
          EXPECT_EQ(norms[size_t(rank)], norms[0]);
          const auto flat = replicas.replica(rank).gradients().cpu();
          for (size_t s = 0; s < replicas.layout().slices.size(); ++s) {
            const auto& slice = replicas.layout().slices[s];
            const auto& expected = reference[slice.parameter].grad();
            const auto mine = flat.narrow(0, slice.offset, slice.numel);
            EXPECT_EQ(replicas.replica(rank).reducer().used()[s], char(expected.defined()));
            const auto truth = expected.defined() ? expected.flatten() : at::zeros({slice.numel});
            EXPECT_LE((mine - truth).abs().max().item<double>(), 1e-5 * largest)
                << devices << " micro " << micro << " rank " << rank << " slice " << s;
          }
        }
        EXPECT_NEAR(norms[0], std::sqrt(squares), 1e-5 * std::sqrt(squares));
      }
}

TEST(Engine, more_devices_than_rows_and_no_rows_at_all_are_fine) {
  for (const auto& devices : device_strings()) {
    auto toy = make_toy();
    ReplicaSet replicas(toy, factory(), parse_devices(devices));
    replicas.run([&](Replica& replica) { train_step(replica, {4}, 1); });
    const auto one = replicas.replica(0).gradients().cpu().clone();
    EXPECT_GT(one.abs().max().item<double>(), 0);
    replicas.run([&](Replica& replica) { train_step(replica, {}, 1); });
    EXPECT_EQ(replicas.replica(replicas.size() - 1).gradients().cpu().abs().max().item<double>(),
              0);
  }
}

TEST(Engine, the_callers_module_is_replica_zero_and_cpu_replicas_share_its_weights) {
  auto toy = make_toy();
  const auto before = toy->first.clone();
  ReplicaSet replicas(toy, factory(), parse_devices("3xcpu"));
  EXPECT_TRUE(at::equal(toy->first, before));
  for (int rank = 0; rank < 3; ++rank) {
    auto& module = static_cast<Toy&>(replicas.replica(rank).module());
    EXPECT_EQ(module.first.data_ptr(), toy->first.data_ptr());
    EXPECT_EQ(module.first._version(), toy->first._version());
  }
  {
    c10::NoGradGuard no_grad;
    toy->first.fill_(2);
  }
  auto& last = static_cast<Toy&>(replicas.replica(2).module());
  EXPECT_EQ(last.first.sum().item<float>(), 128);
  EXPECT_EQ(last.first._version(), toy->first._version());
}

TEST(Engine, freezing_and_thawing_between_runs_is_followed) {
  const std::vector<int64_t> ids{1, 2, 3, 16};
  for (const auto& devices : {"cpu", "2xcpu", "2xsim"}) {
    auto toy = make_toy();
    ReplicaSet replicas(toy, factory(), parse_devices(devices));
    replicas.run([&](Replica& replica) { train_step(replica, ids, 4); });
    const int64_t all = replicas.layout().total;
    toy->table.set_requires_grad(false);
    replicas.run([&](Replica& replica) {
      EXPECT_FALSE(static_cast<Toy&>(replica.module()).table.requires_grad());
      train_step(replica, ids, 4);
    });
    EXPECT_EQ(replicas.layout().total, all - 160);
    toy->table.set_requires_grad(true);
    replicas.run([&](Replica& replica) { train_step(replica, ids, 4); });
    EXPECT_EQ(replicas.layout().total, all);
  }
}

TEST(Engine, a_failing_replica_ends_the_call_with_its_own_error_and_the_set_stays_usable) {
  for (const auto& devices : {"2xcpu", "4xsim", "sim:0+cpu"}) {
    auto toy = make_toy();
    ReplicaSet replicas(toy, factory(), parse_devices(devices));
    const std::vector<int64_t> ids{1, 2, 3, 4, 5, 6, 7, 8};
    for (int bad = 0; bad < replicas.size(); ++bad) {
      try {
        replicas.run([&](Replica& replica) {
          if (replica.rank() == bad) throw std::runtime_error("rank " + std::to_string(bad));
          train_step(replica, ids, 2);
          replica.barrier();
        });
        FAIL();
      } catch (const std::runtime_error& e) {
        EXPECT_EQ(std::string(e.what()), "rank " + std::to_string(bad));
      }
      EXPECT_NO_THROW(replicas.run([&](Replica& replica) { train_step(replica, ids, 2); }));
    }
  }
}

TEST(Engine, the_callers_thread_is_left_as_found) {
  const int threads = at::get_num_threads();
  auto toy = make_toy();
  ReplicaSet replicas(toy, factory(), parse_devices("2xcpu"));
  {
    c10::NoGradGuard no_grad;
    replicas.run([](Replica&) { EXPECT_FALSE(c10::GradMode::is_enabled()); });
  }
  replicas.run([](Replica&) { EXPECT_TRUE(c10::GradMode::is_enabled()); });
  at::autocast::set_autocast_enabled(at::kCPU, true);
  replicas.run([](Replica&) { EXPECT_TRUE(at::autocast::is_autocast_enabled(at::kCPU)); });
  at::autocast::set_autocast_enabled(at::kCPU, false);
  replicas.run([](Replica&) { EXPECT_FALSE(at::autocast::is_autocast_enabled(at::kCPU)); });
  {
    c10::InferenceMode inference;
    replicas.run([](Replica&) { EXPECT_TRUE(c10::InferenceMode::is_enabled()); });
  }
  toy->train();
  replicas.run_lanes([](const Lane& lane) {
    EXPECT_FALSE(c10::GradMode::is_enabled());
    EXPECT_FALSE(lane.module->is_training());
    EXPECT_EQ(at::get_num_threads(), 1);
  });
  EXPECT_TRUE(toy->is_training());
  EXPECT_EQ(at::get_num_threads(), threads);
  EXPECT_TRUE(c10::GradMode::is_enabled());
}

TEST(FlatOps, square_sums_do_not_depend_on_threads_and_equal_torchs) {
  at::manual_seed(5);
  const auto x = at::randn({flat_chunk * 3 + 777});
  const auto sums = chunk_square_sums(x);
  ASSERT_EQ(sums.numel(), 4);
  const int threads = at::get_num_threads();
  at::set_num_threads(1);
  EXPECT_TRUE(at::equal(sums, chunk_square_sums(x)));
  at::set_num_threads(threads);
  const double truth = x.to(at::kDouble).square().sum().item<double>();
  EXPECT_NEAR(sums.sum().item<double>(), truth, 1e-7 * truth);
  sim::enable();
  EXPECT_EQ(chunk_square_sums(x.to("sim:1")).cpu().sum().item<double>(), sums.sum().item<double>());
}

}  // namespace
}  // namespace yoke
