#include "yoke/train/metrics.h"

#include <gtest/gtest.h>

#include <cmath>

namespace yoke {
namespace {

TEST(Scores, are_counts_and_sums_over_rows) {
  Scores scores;
  scores.add_class({0, 0}, 1);              // ln 2; the first of equals is taken: wrong
  scores.add_class({std::log(3.f), 0}, 0);  // -ln(3/4); right
  scores.add_class({1000, 0, -1000}, 1);    // 1000, without overflow
  EXPECT_EQ(scores.targets(), 3);
  EXPECT_DOUBLE_EQ(scores.accuracy(), 1.0 / 3);
  EXPECT_NEAR(scores.loss(), (std::log(2.0) - std::log(0.75) + 1000) / 3, 1e-7);
}

TEST(Scores, regression_is_the_mean_squared_error) {
  Scores scores;
  scores.add_value(1.5f, 1.0);
  scores.add_value(-1.f, 1.0);
  EXPECT_DOUBLE_EQ(scores.loss(), (0.25 + 4) / 2);
}

TEST(Softmax, sums_to_one_and_does_not_overflow) {
  const auto p = softmax({1000, 1000, 0});
  EXPECT_DOUBLE_EQ(p[0], 0.5);
  EXPECT_DOUBLE_EQ(p[2], 0);
}

}  // namespace
}  // namespace yoke
