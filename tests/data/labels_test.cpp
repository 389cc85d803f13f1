// Labels mean what their names say, in every spelling and in every file.
#include "yoke/data/labels.h"

#include "tests/data/temp_files.h"
#include "yoke/core/json.h"
#include "yoke/data/text_dataset.h"

namespace yoke {
namespace {

using test::error_of;
using test::expect_has;
using Names = std::vector<std::string>;
using Ids = std::vector<int64_t>;

TextDataset dataset(std::vector<std::string> labels) {
  TextDataset data;
  data.file = "dev.csv";
  for (size_t i = 0; i < labels.size(); ++i) {
    data.texts.push_back("x");
    data.source_rows.push_back(int64_t(i) + 1);
    data.lines.push_back(int64_t(i) + 2);
  }
  data.labels = std::move(labels);
  return data;
}

LabelMap from(std::vector<std::string> labels) { return LabelMap::from_labels(dataset(labels)); }

LabelMap named(const Names& names) {
  Json config = {{"id2label", Json::object()}};
  for (size_t i = 0; i < names.size(); ++i) config["id2label"][std::to_string(i)] = names[i];
  return LabelMap::from_config(config);
}

TEST(LabelsFromFile, integers_from_0_keep_their_value_and_have_no_names) {
  for (const auto& labels : {Names{"2", "0", "1", "2"}, Names{"1.0", "0.0", "2"},
                             Names{"LABEL_2", "LABEL_0", "LABEL_1"}}) {
    const LabelMap map = from(labels);
    EXPECT_FALSE(map.has_names());
    EXPECT_FALSE(map.regression());
    EXPECT_EQ(map.names(), (Names{"LABEL_0", "LABEL_1", "LABEL_2"}));
    EXPECT_EQ(map.class_ids(dataset({"2", "1.0", "+0", "LABEL_1"})), (Ids{2, 1, 0, 1}));
  }
  Names many;
  for (int i = 0; i < 12; ++i) many.push_back("LABEL_" + std::to_string(i));
  EXPECT_EQ(from(many).names(), many);  // not LABEL_10 before LABEL_2
}

TEST(LabelsFromFile, other_integers_become_names_sorted_by_number) {
  EXPECT_EQ(from({"10", "9", "2"}).names(), (Names{"2", "9", "10"}));
  EXPECT_EQ(from({"+1", "-1"}).names(), (Names{"-1", "1"}));
  EXPECT_EQ(from({"5.0", "1", "1.0"}).names(), (Names{"1", "5"}));
  EXPECT_EQ(from({"9007199254740993", "9007199254740992"}).names(),
            (Names{"9007199254740992", "9007199254740993"}));
  // By name, not by rank or value: 0 is no class here.
  const LabelMap stars = from({"1", "2", "3", "4", "5"});
  EXPECT_TRUE(stars.has_names());
  EXPECT_EQ(stars.class_ids(dataset({"5", "1.0", "2"})), (Ids{4, 0, 1}));
  EXPECT_FALSE(stars.find("0"));
}

TEST(LabelsFromFile, words_become_names_sorted_by_code_point) {
  EXPECT_EQ(from({"b", "a", "Z", "é", "电影", "🎬", "\xEF\xBD\x81"}).names(),
            (Names{"Z", "a", "b", "é", "电影", "\xEF\xBD\x81", "🎬"}));
  EXPECT_EQ(from({"1", "two", "10"}).names(), (Names{"1", "10", "two"}));
  EXPECT_EQ(from({"010", "002", "1"}).names(), (Names{"002", "010", "1"}));  // codes keep zeros
  EXPECT_EQ(from({"True", "False"}).names(), (Names{"False", "True"}));
  EXPECT_EQ(from({"nan", "inf"}).names(), (Names{"inf", "nan"}));
}

TEST(LabelsFromFile, numbers_with_fractions_are_a_regression) {
  const LabelMap map = from({"3.8", "5", "-1e-3"});
  EXPECT_TRUE(map.regression());
  EXPECT_EQ(map.size(), 1);
  EXPECT_EQ(map.values(dataset({"3.8", " 5 ", "+.5"})), (std::vector<double>{3.8, 5, 0.5}));
  expect_has(error_of([&] {
               map.values(dataset({"1", "high"}));
             }),
             {"dev.csv: row 2 (line 3)", "\"high\"", "no number", "regression"});
  expect_has(error_of([&] {
               from({"0.5", "n/a", "1"});
             }),
             {"dev.csv", "\"0.5\" in row 1", "\"n/a\" in row 2"});
}

TEST(LabelsFromFile, a_column_of_texts_is_warned_about) {
  Names labels;
  for (int i = 0; i < 300; ++i) labels.push_back("text " + std::to_string(i));
  test::LogLines log;
  from(labels);
  from({"x", "x"});
  expect_has(log.all(), {"dev.csv: all rows have the label \"x\"",
                         "dev.csv: 300 different labels in 300 rows"});
}

TEST(LabelsAtEvaluation, names_are_matched_and_integers_are_ids_where_names_are_words) {
  const LabelMap map = named({"positive", "negative"});
  EXPECT_EQ(map.class_ids(dataset({"negative", "positive", "0", "1", "1.0"})),
            (Ids{1, 0, 0, 1, 1}));
  const LabelMap truth = named({"false", "true"});
  EXPECT_EQ(truth.class_ids(dataset({"True", " false ", "TRUE", "1"})), (Ids{1, 0, 1, 1}));
  EXPECT_EQ(named({"-1", "1"}).class_ids(dataset({"1", "-1.0", "+1"})), (Ids{1, 0, 1}));
  EXPECT_EQ(named({"002", "010"}).class_ids(dataset({"10", "2"})), (Ids{1, 0}));
}

TEST(LabelsAtEvaluation, a_label_that_the_model_has_no_place_for_is_an_error) {
  const auto of = [](const LabelMap& map, const std::string& label) {
    return error_of([&] { map.class_ids(dataset({"0", label})); });
  };
  const LabelMap plain = LabelMap::from_config({{"num_labels", 3}});
  expect_has(of(plain, "3"), {"dev.csv: row 2 (line 3)", "\"3\"", "no place", "0 to 2"});
  expect_has(of(plain, "-1"), {"\"-1\"", "0 to 2"});
  expect_has(of(plain, "LABEL_3"), {"\"LABEL_3\"", "0 to 2"});
  expect_has(of(plain, "good"), {"\"good\"", "have no names", "0 to 2", "id2label"});
  expect_has(of(plain, "0.5"), {"\"0.5\"", "fraction"});
  const LabelMap words = named({"positive", "negative"});
  expect_has(of(words, "neutral"), {"\"neutral\"", "positive, negative"});
  expect_has(of(words, "Positive"), {"Try: \"positive\""});
  expect_has(of(words, "2"), {"\"2\"", "positive, negative"});
  expect_has(error_of([] { named({"1", "2"}).class_ids(dataset({"0"})); }), {"\"0\"", "1, 2"});
}

TEST(LabelsInConfig, are_written_letter_for_letter_as_transformers_writes_them) {
  const Json golden = read_json(YOKE_SOURCE_DIR "/tests/golden/label_configs.json", "test");
  ASSERT_EQ(golden["configs"].size(), 6u);
  for (const Json& item : golden["configs"]) {
    const Json& theirs = item["config"];
    const LabelMap map = LabelMap::from_config(theirs);
    EXPECT_EQ(map.names(), item["names"].get<Names>());
    Json ours = {{"num_labels", 9}};
    map.write(ours);
    if (theirs.contains("id2label")) {
      EXPECT_EQ(ours["id2label"].dump(), theirs["id2label"].dump());
      EXPECT_EQ(ours["label2id"].dump(), theirs["label2id"].dump());
    }
    EXPECT_EQ(map.regression(), theirs.contains("problem_type"));
    EXPECT_FALSE(ours.contains("num_labels"));
    const LabelMap again = LabelMap::from_config(ours);
    EXPECT_EQ(again.names(), map.names());
    EXPECT_EQ(again.has_names(), map.has_names());
    EXPECT_EQ(again.regression(), map.regression());
  }
}

TEST(LabelsInConfig, what_a_config_does_not_say_is_as_transformers_takes_it) {
  EXPECT_EQ(LabelMap::from_config(Json::object()).names(), (Names{"LABEL_0", "LABEL_1"}));
  EXPECT_TRUE(LabelMap::from_config({{"num_labels", 1}}).regression());
  EXPECT_FALSE(
      LabelMap::from_config({{"num_labels", 1}, {"problem_type", "single_label_classification"}})
          .regression());
  EXPECT_EQ(LabelMap::from_config({{"label2id", {{"b", 1}, {"a", 0}}}}).names(), (Names{"a", "b"}));
  const auto bad = [](const Json& config) {
    return error_of([&] { LabelMap::from_config(config); });
  };
  expect_has(bad({{"id2label", {{"0", "a"}, {"2", "b"}}}}), {"config.json: id2label"});
  expect_has(bad({{"id2label", {{"x", "a"}}}}), {"config.json: id2label"});
  expect_has(bad({{"num_labels", 3}, {"problem_type", "regression"}}), {"3 outputs"});
  expect_has(bad({{"problem_type", "multi_label_classification"}}), {"multi_label"});
}

}  // namespace
}  // namespace yoke
