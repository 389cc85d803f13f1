// Batches depend on (seed, epoch, step) only; every division holds each row once.
#include "yoke/data/batch_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "yoke/core/error.h"
#include "yoke/core/random.h"
#include "yoke/data/loader.h"
#include "yoke/data/packed_batch.h"

namespace yoke {
namespace {

std::vector<int64_t> random_lengths(int64_t n) {
  PhiloxStream random(3, 1);
  std::vector<int64_t> lengths;
  for (int64_t i = 0; i < n; ++i) lengths.push_back(1 + int64_t(random.below(60)));
  return lengths;
}

TEST(TrainPlan, every_epoch_holds_every_row_once_in_an_order_of_its_own) {
  TrainPlan plan(random_lengths(103), {.batch_size = 10, .epochs = 3, .seed = 1});
  EXPECT_EQ(plan.steps(), 33);
  std::set<std::vector<int64_t>> orders;
  for (int epoch = 0; epoch < 3; ++epoch) {
    std::vector<int64_t> seen;
    for (int64_t s = 0; s < 11; ++s) {
      const auto batch = plan.batch(epoch * 11 + s);
      EXPECT_EQ(batch.epoch, epoch);
      EXPECT_EQ(int64_t(batch.rows.size()), s < 10 ? 10 : 3);
      EXPECT_EQ(plan.samples_before(batch.step), epoch * 103 + int64_t(seen.size()));
      seen.insert(seen.end(), batch.rows.begin(), batch.rows.end());
    }
    orders.insert(seen);
    std::sort(seen.begin(), seen.end());
    std::vector<int64_t> all(103);
    std::iota(all.begin(), all.end(), 0);
    EXPECT_EQ(seen, all);
  }
  EXPECT_EQ(orders.size(), 3u);
}

TEST(TrainPlan, steps_can_be_asked_for_in_any_order_and_epochs_can_be_fractions) {
  TrainPlan a(random_lengths(50), {.batch_size = 8, .epochs = 2.5});
  TrainPlan b(random_lengths(50), {.batch_size = 8, .epochs = 2.5});
  EXPECT_EQ(a.steps(), 18);  // ceil(2.5 * 7)
  std::vector<std::vector<int64_t>> forward;
  for (int64_t s = 0; s < a.steps(); ++s) forward.push_back(a.batch(s).rows);
  for (int64_t s = a.steps(); s-- > 0;) EXPECT_EQ(b.batch(s).rows, forward[size_t(s)]);
}

TEST(TrainPlan, bad_options_are_errors) {
  EXPECT_THROW(TrainPlan({}, {}), Error);
  EXPECT_THROW(TrainPlan({1}, {.batch_size = 0}), Error);
  EXPECT_THROW(TrainPlan({1}, {.epochs = 0}), Error);
}

TEST(Deal, any_world_gets_each_slot_once_and_the_load_is_level) {
  const auto lengths = random_lengths(40);
  TrainPlan plan(lengths, {.batch_size = 32, .epochs = 1});
  const auto batch = plan.batch(0);
  for (int64_t world : {1, 2, 3, 4, 8, 50}) {
    for (MicroBatchLimits limits : {MicroBatchLimits{}, {3, 0}, {0, 70}, {2, 50}}) {
      const auto shares = deal(batch, lengths, world, limits);
      ASSERT_EQ(int64_t(shares.size()), world);
      std::set<int64_t> slots;
      int64_t least = batch.tokens, most = 0;
      for (const auto& share : shares) {
        int64_t load = 0;
        for (const auto& micro : share) {
          int64_t tokens = 0;
          for (size_t i = 0; i < micro.rows.size(); ++i) {
            EXPECT_TRUE(slots.insert(micro.slots[i]).second);
            EXPECT_EQ(batch.rows[size_t(micro.slots[i])], micro.rows[i]);
            tokens += lengths[size_t(micro.rows[i])];
          }
          EXPECT_EQ(tokens, micro.tokens);
          if (limits.rows) {
            EXPECT_LE(int64_t(micro.rows.size()), limits.rows);
          }
          if (limits.tokens && micro.rows.size() > 1) {
            EXPECT_LE(micro.tokens, limits.tokens);
          }
          load += tokens;
        }
        least = std::min(least, load);
        most = std::max(most, load);
      }
      EXPECT_EQ(slots.size(), batch.rows.size());
      if (world <= 4) {
        EXPECT_LE(most - least, 60);  // at most one longest row apart
      }
    }
  }
}

TEST(Cut, keeps_the_order_and_never_knows_a_device) {
  const auto lengths = random_lengths(23);
  const auto parts = cut(lengths, {.rows = 8, .tokens = 100});
  int64_t next = 0;
  for (const auto& part : parts)
    for (int64_t row : part.rows) EXPECT_EQ(row, next++);
  EXPECT_EQ(next, 23);
  EXPECT_TRUE(cut({}, {}).empty());
}

TEST(PackedBatch, rows_stand_one_after_another_with_their_positions_and_slots) {
  const std::vector<int32_t> a{5, 6, 7}, b{}, c{8};
  const auto batch = pack({a, b, c}, {}, {4, 0, 9});
  auto list = [](const at::Tensor& t) {
    return std::vector<int64_t>(t.data_ptr<int64_t>(), t.data_ptr<int64_t>() + t.numel());
  };
  EXPECT_EQ(list(batch.input_ids), (std::vector<int64_t>{5, 6, 7, 8}));
  EXPECT_EQ(list(batch.position_ids), (std::vector<int64_t>{0, 1, 2, 0}));
  EXPECT_EQ(list(batch.row_ids), (std::vector<int64_t>{0, 0, 0, 2}));
  EXPECT_EQ(list(batch.slot_ids), (std::vector<int64_t>{4, 4, 4, 9}));
  EXPECT_EQ(batch.cu_seqlens, (std::vector<int64_t>{0, 3, 3, 4}));
  EXPECT_FALSE(batch.token_type_ids.defined());
}

TEST(Loader, gives_everything_in_order_and_errors_at_their_place) {
  Loader<int64_t> loader(5, [](int64_t i) {
    if (i == 3) throw Error("test", "three");
    return i * i;
  });
  for (int64_t i = 0; i < 3; ++i) EXPECT_EQ(loader.next(), i * i);
  EXPECT_THROW(loader.next(), Error);
  Loader<int64_t> unfinished(1000000, [](int64_t i) { return i; });
  EXPECT_EQ(unfinished.next(), 0);  // and the destructor ends it
}

}  // namespace
}  // namespace yoke
