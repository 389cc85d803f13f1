// Which token carries which word's label, beside transformers (tests/golden/token_labels_peer.py).
#include "yoke/train/token_rows.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "tests/train/tiny_model.h"
#include "yoke/core/random.h"

namespace yoke {
namespace {

using testing::TinyModel;

TEST(TokenRows, labels_stand_where_transformers_recipe_puts_them) {
  if (std::system(YOKE_PYTHON " -c 'import transformers' 2>/dev/null") != 0)
    GTEST_SKIP() << "no transformers";
  const TinyModel tiny("align");
  tiny.write(
      "model/vocab.txt",
      "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\njohn\nun\n##do\n##ing\nlives\n-\nin\n##s\nparis\n");
  const std::vector<std::string> words{"John",  "undoing", "in-Paris", "\x01",   "",    "\u200b",
                                       "lives", "nowhere", "Paris's",  "[MASK]", "ins", "UNDO"};
  PhiloxStream random(5, 0);
  std::string text;
  for (int row = 0; row < 60; ++row) {
    Json line = {{"tokens", Json::array()}, {"labels", Json::array()}};
    for (uint64_t n = random.below(9); n > 0; --n) {
      line["tokens"].push_back(words[random.below(words.size())]);
      line["labels"].push_back(random.below(5) == 0 ? int64_t{-100} : int64_t(random.below(3)));
    }
    text += line.dump() + "\n";
  }
  text += R"({"tokens": ["in", "in", "in"], "labels": [0, 1, 2]})"
          "\n";  // classes 0, 1 and 2
  const auto path = tiny.write("rows.jsonl", text);
  const Tokenizer tokenizer = Tokenizer::from_folder(tiny.model_folder());
  const TokenDataset data = load_token_dataset(path, {}, LabelNeed::required);
  const LabelMap labels = LabelMap::from_labels(data);
  const std::string out = tiny.path("peer.jsonl");
  ASSERT_EQ(std::system((YOKE_PYTHON " " YOKE_SOURCE_DIR "/tests/golden/token_labels_peer.py " +
                         tiny.model_folder() + " " + path + " 2 3 6 30 > " + out + " 2>/dev/null")
                            .c_str()),
            0);
  std::ifstream file(out);
  std::string line;
  for (const int64_t length : {2, 3, 6, 30}) {
    TextRows rows = token_rows(data, tokenizer, length);
    set_token_labels(rows, data, labels);
    for (size_t row = 0; row < rows.words.size(); ++row) {
      ASSERT_TRUE(std::getline(file, line));
      const Json peer = parse_json(line, "peer", "test");
      EXPECT_EQ(Json(rows.tokens.input_ids[row]), peer["input_ids"]) << row;
      EXPECT_EQ(Json(rows.token_labels[row]), peer["labels"]) << row;
      int64_t targets = 0;
      for (const auto& label : peer["labels"]) targets += label != -100;
      EXPECT_EQ(rows.targets[row], targets);
    }
  }
}

TEST(TokenRows, a_micro_batch_holds_the_labels_of_its_rows_in_its_order) {
  TextRows rows;
  rows.tokens.input_ids = {{2, 7, 3}, {2, 3}, {2, 7, 8, 3}};
  rows.token_labels = {{-100, 4, -100}, {-100, -100}, {-100, 5, 6, -100}};
  rows.lengths = {3, 2, 4};
  const auto batch = pack_rows(rows, {.rows = {2, 0, 1}, .slots = {0, 1, 2}});
  const auto* labels = batch.labels.const_data_ptr<int64_t>();
  EXPECT_EQ(std::vector<int64_t>(labels, labels + batch.labels.numel()),
            (std::vector<int64_t>{-100, 5, 6, -100, -100, 4, -100, -100, -100}));
}

}  // namespace
}  // namespace yoke
