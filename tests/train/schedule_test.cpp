// Learning rates against transformers' schedulers (tests/golden/make_schedules.py).
#include "yoke/train/schedule.h"

#include <gtest/gtest.h>

#include "yoke/core/error.h"
#include "yoke/core/json.h"

namespace yoke {
namespace {

TEST(Schedule, equals_transformers_step_by_step) {
  const Json cases = read_json(YOKE_SOURCE_DIR "/tests/golden/schedules.json", "test");
  ASSERT_GE(cases.size(), 16u);
  for (const auto& c : cases) {
    const int64_t total = c["total"];
    const Schedule schedule(c["name"], 5e-5, c["warmup"], total);
    for (int64_t step = 0; step < total; ++step)
      EXPECT_NEAR(schedule.at(step), c["rates"][size_t(step)].get<double>(), 1e-18)
          << c["name"] << " " << total << " " << c["warmup"] << " step " << step;
  }
}

TEST(Schedule, unknown_names_and_bad_values_are_errors_with_a_hint) {
  try {
    Schedule("lineer", 1e-3, 0, 10);
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.hint(), "linear");
  }
  EXPECT_THROW(Schedule("linear", -1, 0, 10), Error);
  EXPECT_THROW(Schedule("linear", 1e-3, -2, 10), Error);
}

}  // namespace
}  // namespace yoke
