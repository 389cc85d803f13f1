// The kernels against plain tensor operations, torch's own attention, and closed forms.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <cmath>
#include <mutex>
#include <set>
#include <thread>

#include "yoke/core/random.h"
#include "yoke/models/ops/attention.h"
#include "yoke/models/ops/dropout.h"

namespace yoke {
namespace {

bool same_bits(const at::Tensor& a, const at::Tensor& b) { return at::equal(a, b); }

struct Rows {
  std::vector<int64_t> cu{0};
  at::Tensor slots, positions;
  explicit Rows(const std::vector<int64_t>& lengths, const std::vector<int64_t>& row_slots = {}) {
    std::vector<int64_t> s, p;
    for (size_t r = 0; r < lengths.size(); ++r) {
      cu.push_back(cu.back() + lengths[r]);
      for (int64_t i = 0; i < lengths[r]; ++i) {
        s.push_back(row_slots.empty() ? int64_t(r) : row_slots[r]);
        p.push_back(i);
      }
    }
    slots = at::tensor(s, at::kLong);
    positions = at::tensor(p, at::kLong);
  }
  int64_t tokens() const { return cu.back(); }
};

TEST(RowDropout, the_kernel_and_plain_tensor_operations_give_the_same_bits) {
  at::manual_seed(1);
  const Rows rows({5, 1, 7});
  for (int64_t channels : {1, 3, 4, 127, 128, 130, 384}) {
    const auto x = at::randn({rows.tokens(), channels});
    for (double p : {0.1, 0.5, 0.9}) {
      const DropoutSite site{.p = p, .seed = 42, .layer = 3, .step = 17};
      const auto y = row_dropout(x, rows.slots, rows.positions, site);
      EXPECT_TRUE(same_bits(y, row_dropout_reference(x, rows.slots, rows.positions, site)));
    }
  }
}

TEST(RowDropout, each_channel_follows_philox_of_its_own_counter) {
  const Rows rows({2}, {9});
  const auto x = at::ones({2, 10});
  const DropoutSite site{.p = 0.3, .seed = 5, .layer = 2, .step = 7};
  const auto y = row_dropout(x, rows.slots, rows.positions, site);
  for (uint32_t position = 0; position < 2; ++position)
    for (uint32_t c = 0; c < 10; ++c) {
      const uint32_t word = philox({7, 9, position, c / 4}, philox_key(5, 2))[c % 4];
      const float expected =
          word < uint32_t(std::llround(0.3 * 4294967296.0)) ? 0.f : float(1 / 0.7);
      EXPECT_EQ(y[position][c].item<float>(), expected);
    }
}

TEST(RowDropout, a_rows_mask_does_not_depend_on_its_neighbours_and_no_two_rows_share_one) {
  const DropoutSite site{.p = 0.5, .seed = 1, .layer = 0, .step = 0};
  const Rows all(std::vector<int64_t>(8, 1));
  const auto whole = row_dropout(at::ones({8, 1000}), all.slots, all.positions, site);
  for (int64_t r = 0; r < 8; ++r) {
    const Rows one({1}, {r});
    EXPECT_TRUE(
        same_bits(row_dropout(at::ones({1, 1000}), one.slots, one.positions, site)[0], whole[r]));
    for (int64_t other = 0; other < r; ++other) EXPECT_FALSE(same_bits(whole[r], whole[other]));
  }
  EXPECT_NEAR(whole.mean().item<double>(), 1, 0.05);
  for (const DropoutSite changed :
       {DropoutSite{.p = 0.5, .seed = 2}, DropoutSite{.p = 0.5, .seed = 1, .layer = 1},
        DropoutSite{.p = 0.5, .seed = 1, .step = 1}})
    EXPECT_FALSE(
        same_bits(row_dropout(at::ones({8, 1000}), all.slots, all.positions, changed), whole));
}

TEST(RowDropout, its_gradient_is_the_mask_of_the_same_counter) {
  const Rows rows({3, 2});
  const DropoutSite site{.p = 0.4, .seed = 3, .layer = 1, .step = 2};
  auto x = at::randn({5, 20}).requires_grad_();
  const auto y = row_dropout(x, rows.slots, rows.positions, site);
  y.sum().backward();
  EXPECT_TRUE(
      same_bits(x.grad(), row_dropout(at::ones({5, 20}), rows.slots, rows.positions, site)));
}

// torch's own scaled_dot_product_attention, one row at a time.
at::Tensor attention_by_torch(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                              const std::vector<int64_t>& cu, int64_t heads) {
  std::vector<at::Tensor> out;
  for (size_t r = 0; r + 1 < cu.size(); ++r) {
    const int64_t length = cu[r + 1] - cu[r];
    if (length == 0) continue;
    auto part = [&](const at::Tensor& x) {
      return x.narrow(0, cu[r], length)
          .view({length, heads, x.size(1) / heads})
          .transpose(0, 1)
          .unsqueeze(0);
    };
    out.push_back(
        at::scaled_dot_product_attention(part(q), part(k), part(v))[0].transpose(0, 1).reshape(
            {length, -1}));
  }
  return at::cat(out);
}

struct Inputs {
  at::Tensor q, k, v, weight;
  Inputs(int64_t tokens, int64_t width)
      : q(at::randn({tokens, width}).requires_grad_()),
        k(at::randn({tokens, width}).requires_grad_()),
        v(at::randn({tokens, width}).requires_grad_()),
        weight(at::randn({tokens, width})) {}
  std::vector<at::Tensor> gradients(const at::Tensor& out) {
    for (auto* x : {&q, &k, &v}) x->mutable_grad().reset();
    (out * weight).sum().backward();
    return {q.grad().clone(), k.grad().clone(), v.grad().clone()};
  }
};

void expect_close(const at::Tensor& a, const at::Tensor& b, double tolerance) {
  EXPECT_LE((a - b).abs().max().item<double>(), tolerance * b.abs().max().item<double>());
}

// Some gradients are truly zero (a row of one token): the largest of all is the measure.
void expect_close(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b,
                  double tolerance) {
  double largest = 0;
  for (const auto& x : b) largest = std::max(largest, x.abs().max().item<double>());
  for (size_t i = 0; i < a.size(); ++i)
    EXPECT_LE((a[i] - b[i]).abs().max().item<double>(), tolerance * largest);
}

TEST(PackedAttention, equals_torchs_attention_forward_and_backward) {
  at::manual_seed(2);
  const int64_t heads = 3;
  for (const auto& lengths : {std::vector<int64_t>{1}, {13, 2, 0, 40, 1}, {300, 129, 5}}) {
    const Rows rows(lengths);
    Inputs in(rows.tokens(), heads * 12);
    const auto ours = packed_attention(in.q, in.k, in.v, rows.cu, rows.slots, heads, {});
    const auto theirs = attention_by_torch(in.q, in.k, in.v, rows.cu, heads);
    expect_close(ours, theirs, 2e-6);
    const auto a = in.gradients(ours), b = in.gradients(theirs);
    expect_close(a, b, 5e-6);
  }
}

TEST(PackedAttention, with_dropout_equals_the_reference_forward_and_backward) {
  at::manual_seed(3);
  const int64_t heads = 2;
  const DropoutSite site{.p = 0.3, .seed = 11, .layer = 4, .step = 9};
  for (const auto& lengths : {std::vector<int64_t>{4}, {13, 2, 0, 40}, {150, 30}}) {
    const Rows rows(lengths, {5, 3, 8, 1});
    Inputs in(rows.tokens(), heads * 8);
    const auto ours = packed_attention(in.q, in.k, in.v, rows.cu, rows.slots, heads, site);
    const auto reference =
        packed_attention_reference(in.q, in.k, in.v, rows.cu, rows.slots, heads, site);
    expect_close(ours, reference, 2e-6);
    EXPECT_GT((ours - packed_attention(in.q, in.k, in.v, rows.cu, rows.slots, heads, {}))
                  .abs()
                  .max()
                  .item<double>(),
              0.01);
    const auto a = in.gradients(ours), b = in.gradients(reference);
    expect_close(a, b, 5e-6);
  }
}

TEST(PackedAttention, a_row_has_the_same_bits_beside_any_neighbours_and_on_any_number_of_threads) {
  at::manual_seed(4);
  const Rows rows({20, 33, 9});
  Inputs in(rows.tokens(), 64);
  const DropoutSite site{.p = 0.1, .seed = 1, .layer = 1, .step = 1};
  const int threads = at::get_num_threads();
  const auto whole = packed_attention(in.q, in.k, in.v, rows.cu, rows.slots, 2, site);
  at::set_num_threads(1);
  EXPECT_TRUE(same_bits(whole, packed_attention(in.q, in.k, in.v, rows.cu, rows.slots, 2, site)));
  at::set_num_threads(threads);
  const Rows middle({33}, {1});
  auto part = [](const at::Tensor& x) { return x.narrow(0, 20, 33); };
  EXPECT_TRUE(same_bits(part(whole), packed_attention(part(in.q), part(in.k), part(in.v), middle.cu,
                                                      middle.slots, 2, site)));
}

// at::parallel_for is inline: compiled without OpenMP it would quietly run on one thread.
TEST(Kernels, are_compiled_to_run_on_all_threads) {
  if (at::get_num_threads() < 2) GTEST_SKIP() << "one core";
  std::mutex mutex;
  std::set<std::thread::id> threads;
  at::parallel_for(0, at::get_num_threads(), 1, [&](int64_t, int64_t) {
    std::lock_guard lock(mutex);
    threads.insert(std::this_thread::get_id());
  });
  EXPECT_EQ(int(threads.size()), at::get_num_threads());
}

TEST(PackedAttention, shapes_that_do_not_fit_are_errors) {
  const auto x = at::randn({4, 6});
  const auto slots = at::zeros({4}, at::kLong);
  EXPECT_THROW(packed_attention(x, x, x, {0, 5}, slots, 2, {}), c10::Error);
  EXPECT_THROW(packed_attention(x, x, x, {0, 4}, slots, 4, {}), c10::Error);
  EXPECT_THROW(row_dropout(x, slots, slots, {.p = 1}), c10::Error);
}

}  // namespace
}  // namespace yoke
