// Lists of words and labels: every row is kept or told, whatever stands in the lists.
#include "yoke/data/token_dataset.h"

#include "tests/data/temp_files.h"
#include "yoke/data/labels.h"

namespace yoke {
namespace {

using test::error_of;
using test::expect_has;
using test::LogLines;
using test::TempFiles;
using Words = std::vector<std::string>;
using Ids = std::vector<int32_t>;

constexpr int32_t none = int32_t(ignored_label);

class LoadTokens : public testing::Test {
 protected:
  TokenDataset load(const std::string& name, const std::string& bytes,
                    const TextOptions& options = {}, LabelNeed need = LabelNeed::required,
                    int64_t max_rows = 0) {
    return load_token_dataset(files.write(name, bytes), options, need, max_rows);
  }
  std::string error(const std::string& name, const std::string& bytes,
                    const TextOptions& options = {}, LabelNeed need = LabelNeed::required) {
    return error_of([&] { load(name, bytes, options, need); });
  }
  TempFiles files;
  LogLines log;
};

TEST_F(LoadTokens, words_and_labels_are_read_as_they_stand) {
  const auto data = load(
      "a.jsonl",
      R"({"id": 7, "tokens": ["John", "", "\"q\"\\\n\u0001"], "labels": ["B-PER", " O ", null]})"
      "\n\n"
      R"({"tokens": [], "labels": []})"
      "\n"
      R"({"labels": ["O", -100, 3, 2.0], "x": {"y": [1]}, "tokens": ["中", "a b", "c", "d"]})");
  EXPECT_EQ(data.tokens,
            (std::vector<Words>{{"John", "", "\"q\"\\\n\x01"}, {}, {"中", "a b", "c", "d"}}));
  EXPECT_EQ(data.label_names, (Words{"B-PER", "O", "3", "2"}));
  EXPECT_EQ(data.labels, (std::vector<Ids>{{0, 1, none}, {}, {1, none, 2, 3}}));
  EXPECT_EQ(data.source_rows, (std::vector<int64_t>{1, 2, 3}));
  EXPECT_EQ(data.lines, (std::vector<int64_t>{1, 3, 4}));
  EXPECT_EQ(data.token_column + "|" + data.label_column, "tokens|labels");
  EXPECT_EQ(data.describe_label(2), files.path("a.jsonl") + ": row 3 (line 4), token 3 (\"c\")");
}

TEST_F(LoadTokens, an_array_of_objects_reads_the_same) {
  const auto data = load("a.json", R"([{"tokens": ["a", "b"], "ner_tags": [0, 1]},
    {"tokens": ["c"], "ner_tags": [-100]}])");
  EXPECT_EQ(data.tokens, (std::vector<Words>{{"a", "b"}, {"c"}}));
  EXPECT_EQ(data.labels, (std::vector<Ids>{{0, 1}, {none}}));
  EXPECT_EQ(data.label_names, (Words{"0", "1"}));
}

TEST_F(LoadTokens, columns_are_found_by_name_or_given) {
  const auto columns = [&](const std::string& keys, const TextOptions& options = {}) {
    std::string row;
    size_t begin = 0;
    for (size_t end = 0; end < keys.size(); begin = end + 1) {
      end = std::min(keys.find(',', begin), keys.size());
      row += (row.empty() ? "{\"" : ", \"") + keys.substr(begin, end - begin) + "\": [\"a\"]";
    }
    const auto data = load("c.jsonl", row + "}\n", options);
    return data.token_column + "|" + data.label_column;
  };
  EXPECT_EQ(columns("tokens,labels"), "tokens|labels");
  EXPECT_EQ(columns("Words,tags"), "Words|tags");
  EXPECT_EQ(columns("ner_tags,words"), "words|ner_tags");
  EXPECT_EQ(columns("tokens,label"), "tokens|label");
  EXPECT_EQ(columns("tokens,pos_tags,ner"), "tokens|ner");
  EXPECT_EQ(columns("tokens,tags,pos", {.label_column = "pos"}), "tokens|pos");
  EXPECT_EQ(columns("a,b", {.text_column = "b", .label_column = "0"}), "b|a");
  EXPECT_TRUE(log.lines.empty()) << log.all();
  EXPECT_EQ(columns("tokens,tags,labels"), "tokens|labels");
  expect_has(log.all(), {"labels are read from \"labels\", not from \"tags\""});
  expect_has(error_of([&] { columns("tokens,mark"); }),
             {"no column is known to hold lists of labels", "tokens, mark", "--label-column"});
  expect_has(error_of([&] { columns("w,labels"); }),
             {"no column is known to hold lists of words", "(--text-column w)"});
  expect_has(error_of([&] { columns("tokens,labels", {.label_column = "lables"}); }),
             {"no column \"lables\"", "(--label-column labels)"});
  expect_has(error_of([&] { columns("tokens,labels", {.label_column = "tokens"}); }),
             {"both words and labels"});
  expect_has(error_of([&] { columns("tokens,labels", {.text_pair_column = "tokens"}); }),
             {"no second text"});
}

TEST_F(LoadTokens, labels_are_not_read_where_they_are_not_needed) {
  const std::string bytes =
      "{\"tokens\": [\"a\"]}\n{\"tokens\": [\"b\"], \"labels\": \"broken\"}\n";
  const auto data = load("p.jsonl", bytes, {}, LabelNeed::ignored);
  EXPECT_EQ(data.rows(), 2);
  EXPECT_TRUE(data.labels.empty() && data.label_column.empty());
}

TEST_F(LoadTokens, files_that_cannot_hold_lists_are_told_so) {
  for (const auto& [name, bytes] : std::vector<std::pair<std::string, std::string>>{
           {"a.csv", "tokens,labels\n\"['a']\",\"['O']\"\n"},
           {"a.tsv", "tokens\tlabels\na b\tO O\n"}})
    expect_has(error(name, bytes), {name, "no column holds lists", "JSON lines", "CSV or TSV"});
  expect_has(error("s.jsonl", R"({"tokens": "a b", "labels": ["O", "O"]})"),
             {"\"tokens\" does not hold lists", "one of: labels"});
}

TEST_F(LoadTokens, what_is_wrong_with_a_row_is_told_with_row_and_line) {
  const std::string good = "{\"tokens\": [\"a\"], \"labels\": [\"O\"]}\n\n";
  const auto wrong = [&](const std::string& row) { return error("w.jsonl", good + row + "\n"); };
  const std::vector<std::pair<std::string, std::string>> faults{
      {R"({"tokens": ["a"], "labels": ["O"])", "is not JSON"},
      {R"({"tokens": ["a", "b"], "labels": ["O"]})", "has 2 tokens and 1 label"},
      {R"({"tokens": ["a"], "labels": ["O", "O", 1]})", "has 1 token and 3 labels"},
      {R"({"tokens": ["a", 5], "labels": ["O", "O"]})", "has a token 2 that is not a string: 5"},
      {R"({"tokens": ["a", null], "labels": ["O", "O"]})", "token 2 that is not a string: null"},
      {R"({"tokens": ["a"], "labels": [1.5]})", "label 1 that is neither"},
      {R"({"tokens": ["a"], "labels": [true]})", "label 1 that is neither"},
      {R"({"tokens": ["a"], "labels": [["O"]]})", "label 1 that is neither"},
      {R"({"tokens": ["a"], "labels": [" "]})", "label 1 that is empty"},
      {R"({"tokens": ["a"]})", "has no \"labels\""},
      {R"({"tokens": null, "labels": []})", "has no \"tokens\""},
      {R"({"tokens": "a", "labels": ["O"]})", "\"tokens\" that is not a list"},
      {R"({"tokens": {"0": "a"}, "labels": ["O"]})", "\"tokens\" that is not a list"}};
  for (const auto& [row, says] : faults)
    expect_has(wrong(row), {"w.jsonl: row 2 (line 3)", says, "--skip-bad-rows"});
  expect_has(wrong(faults[0].first + "\n" + faults[1].first), {"row 2 (line 3)"});  // the first
  std::string all = good;
  for (const auto& [row, says] : faults) all += row + "\n";
  const auto data = load("all.jsonl", all + good, {.skip_bad_rows = true});
  EXPECT_EQ(data.source_rows, (std::vector<int64_t>{1, int64_t(faults.size()) + 2}));
  EXPECT_EQ(data.label_names, (Words{"O"}));  // a bad row adds no label
  ASSERT_EQ(data.skipped.size(), faults.size());
  for (size_t i = 0; i < faults.size(); ++i)
    expect_has(data.skipped[i], {"row " + std::to_string(i + 2), faults[i].second});
  expect_has(log.all(), {"left out 13 rows"});
  EXPECT_EQ(load("max.jsonl", good + good + "{", {}, LabelNeed::required, 2).rows(), 2);
}

TEST_F(LoadTokens, parquet_lists_read_as_json_lists_do) {
  YOKE_NEEDS_PYTHON();
  const std::string path = files.path("t.parquet");
  ASSERT_TRUE(test::run_peer("tokens " + path));
  const auto data = load_token_dataset(path, {.label_column = "ner_tags"}, LabelNeed::required);
  EXPECT_EQ(data.tokens, (std::vector<Words>{{"John", "said", "\"中\\n\""}, {}, {"x"}}));
  EXPECT_EQ(data.label_names, (Words{"3", "0"}));
  EXPECT_EQ(data.labels, (std::vector<Ids>{{0, 1, none}, {}, {none}}));
  EXPECT_EQ(data.describe(2), path + ": row 3");
  const auto words = load_token_dataset(path, {.label_column = "tags"}, LabelNeed::required);
  EXPECT_EQ(words.label_names, (Words{"B-PER", "O"}));
  EXPECT_EQ(words.tokens, data.tokens);
  expect_has(
      error_of([&] { load_token_dataset(path, {.label_column = "deep"}, LabelNeed::required); }),
      {"row 1 has a \"deep\" that is not a list of plain values"});
}

TEST_F(LoadTokens, labels_become_classes_and_an_unknown_one_is_told_with_its_word) {
  const auto rows = [&](const std::string& labels) {
    return load("l.jsonl", "{\"tokens\": [\"a\", \"b\", \"c\"], \"labels\": " + labels + "}\n");
  };
  const auto names = [&](const std::string& labels) {
    return LabelMap::from_labels(rows(labels)).names();
  };
  EXPECT_EQ(names(R"(["O", "B-PER", "I-PER"])"), (Words{"B-PER", "I-PER", "O"}));
  EXPECT_EQ(names("[1, 0, -100]"), (Words{"LABEL_0", "LABEL_1"}));
  EXPECT_EQ(names("[3, 0, 3]"), (Words{"0", "3"}));
  expect_has(error_of([&] { names(R"(["0.5", "1", "1"])"); }), {"\"0.5\" in row 1", "fraction"});
  const auto map = LabelMap::from_labels(rows(R"(["O", "B-PER", "I-PER"])"));
  EXPECT_EQ(map.class_ids(rows(R"(["I-PER", "O", 0])")), (std::vector<int64_t>{1, 2, 0}));
  expect_has(error_of([&] { map.class_ids(rows(R"(["O", "B-Per", "O"])")); }),
             {"l.jsonl: row 1 (line 1), token 2 (\"b\") has the label \"B-Per\"", "B-PER, I-PER, O",
              "Try: \"B-PER\""});
  Json config = {{"problem_type", "single_label_classification"}};
  map.write(config, true);
  EXPECT_FALSE(config.contains("problem_type"));
  EXPECT_EQ(config["id2label"]["2"], "O");
}

TEST_F(LoadTokens, tokenizing_does_not_depend_on_threads_and_tells_the_first_bad_row) {
  const auto vocabulary =
      files.write("vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nthe\nfilm\n");
  const Tokenizer tokenizer =
      Tokenizer::from_folder(std::filesystem::path(vocabulary).parent_path());
  TokenDataset data;
  for (int64_t row = 0; row < 500; ++row) {
    data.tokens.push_back(Words(size_t(row % 7), row % 2 ? "film" : "the film"));
    data.source_rows.push_back(row + 1);
  }
  const auto one = tokenize(data, tokenizer, 8, 1), many = tokenize(data, tokenizer, 8, 5);
  EXPECT_EQ(one.input_ids, many.input_ids);
  EXPECT_EQ(one.word_ids, many.word_ids);
  EXPECT_EQ(one.shortened, many.shortened);
  EXPECT_EQ(one.word_ids[4], (Ids{-1, 0, 0, 1, 1, 2, 2, -1}));
  EXPECT_EQ(one.shortened, 107);  // even rows with more than three words
  data.tokens[411][0] = data.tokens[130][1] = "\xFF";
  expect_has(error_of([&] { tokenize(data, tokenizer, 8, 5); }), {"text 131", "UTF-8"});
}

TEST(SplitWords, cuts_as_python_does) {
  EXPECT_EQ(split_words("  a b\t中文\u3000c\u00a0d\x1c\x1e e\n"),
            (Words{"a", "b", "中文", "c", "d", "e"}));
  EXPECT_EQ(split_words("a\u200bb"), (Words{"a\u200bb"}));
  EXPECT_TRUE(split_words(" \n ").empty());
  EXPECT_TRUE(split_words("").empty());
  EXPECT_THROW(split_words("a \xFF"), Error);
}

}  // namespace
}  // namespace yoke
