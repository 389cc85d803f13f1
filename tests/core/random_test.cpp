// Philox against the known answers that its authors publish with Random123, and the shuffle.
#include "yoke/core/random.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

namespace yoke {
namespace {

using Words = std::array<uint32_t, 4>;

// Random123, tests/kat_vectors, philox4x32 with 10 rounds.
TEST(Random, philox_matches_the_published_known_answers) {
  EXPECT_EQ(philox({0, 0, 0, 0}, {0, 0}),
            (Words{0x6627e8d5u, 0xe169c58du, 0xbc57ac4cu, 0x9b00dbd8u}));
  EXPECT_EQ(
      philox({0xffffffffu, 0xffffffffu, 0xffffffffu, 0xffffffffu}, {0xffffffffu, 0xffffffffu}),
      (Words{0x408f276du, 0x41c83b0eu, 0xa20bc7c6u, 0x6d5451fdu}));
  EXPECT_EQ(
      philox({0x243f6a88u, 0x85a308d3u, 0x13198a2eu, 0x03707344u}, {0xa4093822u, 0x299f31d0u}),
      (Words{0xd16cfe09u, 0x94fdccebu, 0x5001e420u, 0x24126ea1u}));
}

TEST(Random, order_is_a_permutation_that_depends_on_seed_and_epoch) {
  auto a = shuffled_order(1000, 42, 0);
  EXPECT_EQ(a, shuffled_order(1000, 42, 0));
  EXPECT_NE(a, shuffled_order(1000, 42, 1));
  EXPECT_NE(a, shuffled_order(1000, 43, 0));
  std::sort(a.begin(), a.end());
  std::vector<int64_t> identity(1000);
  std::iota(identity.begin(), identity.end(), 0);
  EXPECT_EQ(a, identity);
}

TEST(Random, below_is_uniform_and_normal_has_its_moments) {
  PhiloxStream stream(7, 1);
  std::array<int, 6> counts{};
  for (int i = 0; i < 60000; ++i) ++counts[stream.below(6)];
  for (int c : counts) EXPECT_NEAR(c, 10000, 400);  // 4 standard deviations
  double sum = 0, squares = 0;
  for (int i = 0; i < 100000; ++i) {
    const double x = stream.normal();
    sum += x;
    squares += x * x;
  }
  EXPECT_NEAR(sum / 100000, 0, 0.015);
  EXPECT_NEAR(squares / 100000, 1, 0.02);
}

}  // namespace
}  // namespace yoke
