// Entity scores beside seqeval's (tests/golden/make_entities.py).
#include "yoke/train/entities.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "yoke/core/json.h"

namespace yoke {
namespace {

TEST(Entities, are_counted_as_seqeval_does) {
  const Json cases = read_json(YOKE_SOURCE_DIR "/tests/golden/entities.json", "test");
  EXPECT_EQ(cases.size(), 24u);
  for (const auto& c : cases) {
    const auto names = c["names"].get<std::vector<std::string>>();
    EXPECT_TRUE(EntityScores::fit(names));
    const auto ids = [&](const Json& row) {
      std::vector<int64_t> found;
      for (const auto& tag : row)
        found.push_back(std::find(names.begin(), names.end(), tag.get<std::string>()) -
                        names.begin());
      return found;
    };
    EntityScores scores(names);
    for (size_t row = 0; row < c["truth"].size(); ++row)
      scores.add_row(ids(c["truth"][row]), ids(c["predicted"][row]));
    EXPECT_DOUBLE_EQ(scores.precision(), c["precision"].get<double>()) << c;
    EXPECT_DOUBLE_EQ(scores.recall(), c["recall"].get<double>()) << c;
    EXPECT_DOUBLE_EQ(scores.f1(), c["f1"].get<double>()) << c;
  }
}

TEST(Entities, are_counted_only_where_labels_are_of_that_kind) {
  EXPECT_TRUE(EntityScores::fit({"O", "B-geo-loc", "I-geo-loc"}));
  EXPECT_TRUE(EntityScores::fit({"I-PER", "O"}));
  EXPECT_FALSE(EntityScores::fit({"LABEL_0", "LABEL_1"}));
  EXPECT_FALSE(EntityScores::fit({"O", "PER", "B-LOC"}));
  EXPECT_FALSE(EntityScores::fit({"NOUN", "VERB"}));
  EXPECT_FALSE(EntityScores::fit({"O"}));
  EXPECT_FALSE(EntityScores::fit({}));
  EXPECT_FALSE(EntityScores::fit({"B-PER", ""}));
}

}  // namespace
}  // namespace yoke
