// The right columns are found, every row is kept or told, and tokenising does not depend on
// threads.
#include "yoke/data/text_dataset.h"

#include "tests/data/temp_files.h"
#include "yoke/core/random.h"

namespace yoke {
namespace {

using test::error_of;
using test::expect_has;
using test::LogLines;
using test::TempFiles;
using Texts = std::vector<std::string>;

class LoadText : public testing::Test {
 protected:
  TextDataset load(const std::string& name, const std::string& bytes,
                   const TextOptions& options = {}, LabelNeed need = LabelNeed::required,
                   int64_t max_rows = 0) {
    return load_text_dataset(files.write(name, bytes), options, need, max_rows);
  }
  std::string error(const std::string& name, const std::string& bytes,
                    const TextOptions& options = {}, LabelNeed need = LabelNeed::required) {
    return error_of([&] { load(name, bytes, options, need); });
  }
  // "text|pair|label" of the columns that a header leads to.
  std::string columns(const std::string& header) {
    std::string row;
    for (size_t i = 0, n = 1 + size_t(std::count(header.begin(), header.end(), ',')); i < n; ++i)
      row += (i ? ",x" : "x") + std::to_string(i);
    const auto data = load("c.csv", header + "\n" + row + "\n");
    return data.text_column + "|" + data.text_pair_column + "|" + data.label_column;
  }
  TempFiles files;
  LogLines log;
};

TEST_F(LoadText, columns_are_found_by_name_in_any_case_and_order) {
  EXPECT_EQ(columns("text,label"), "text||label");
  EXPECT_EQ(columns("LABEL,Sentence"), "Sentence||LABEL");
  EXPECT_EQ(columns("index,sentence1,sentence2,label"), "sentence1|sentence2|label");
  EXPECT_EQ(columns("id,question1,question2,is_duplicate"), "question1|question2|is_duplicate");
  EXPECT_EQ(columns("premise,hypothesis,label"), "premise|hypothesis|label");
  EXPECT_EQ(columns("index,question,sentence,label"), "question|sentence|label");
  EXPECT_EQ(columns("question,class"), "question||class");
  EXPECT_EQ(columns("sentence1,category"), "sentence1||category");
  EXPECT_EQ(columns("content,target"), "content||target");
  EXPECT_EQ(columns("Class Index,Title,Description"), "Description||Class Index");
  EXPECT_EQ(columns(" text , sentiment "), " text || sentiment ");
  EXPECT_TRUE(log.all().find("label") == std::string::npos) << log.all();
}

TEST_F(LoadText, of_two_columns_that_would_do_the_first_known_is_taken_and_said) {
  EXPECT_EQ(columns("id,target,review,label,title"), "review||label");
  expect_has(log.all(), {"labels are read from \"label\", not from \"target\"",
                         "texts are read from \"review\", not from \"title\""});
}

TEST_F(LoadText, the_last_of_two_columns_is_what_is_still_wanted) {
  EXPECT_EQ(columns("Label,Nachricht"), "Nachricht||Label");
  EXPECT_EQ(columns("text,verdict"), "text||verdict");
  expect_has(error("a.csv", "id,label\n7,1\n"), {"no column is known to hold texts"});
}

TEST_F(LoadText, given_columns_win_by_name_or_by_number) {
  const std::string bytes = "text,a,b,1\nt,u,v,w\n";
  const auto at = [&](const TextOptions& options) {
    const auto data = load("g.csv", bytes, options);
    return data.texts[0] + (data.pairs.empty() ? "" : data.pairs[0]) + data.labels[0];
  };
  EXPECT_EQ(at({.text_column = "b", .label_column = "a"}), "vu");
  EXPECT_EQ(at({.label_column = "B"}), "tv");
  EXPECT_EQ(at({.text_column = "2", .label_column = "1"}), "vw");  // a column is called "1"
  EXPECT_EQ(at({.text_column = "a", .text_pair_column = "0", .label_column = "b"}), "utv");
  expect_has(
      error("g.csv", bytes, {.text_column = "txet"}),
      {"no column \"txet\"", "text, a, b, 1", ".data.text_column = \"text\" (--text-column text)"});
  expect_has(error("g.csv", bytes, {.text_column = "a", .label_column = "a"}),
             {"\"a\" is to be both text and label"});
}

TEST_F(LoadText, unknown_columns_are_shown_with_the_first_row_and_what_to_give) {
  expect_has(
      error("u.csv", "nr,meinung text,urteil\n1,ein schöner Film,gut\n2,ein langer,schlecht\n"),
      {"u.csv: no column is known to hold texts or labels", "nr: \"1\"",
       "meinung text: \"ein schöner Film\"",
       ".data.text_column = \"meinung text\" (--text-column \"meinung text\")",
       "(--label-column urteil)"});
  expect_has(
      error("h.csv", "what a fine little film,1\na dull one,0\n"),
      {"(--no-header) where the first line is a row", "what a fine little film: \"a dull one\""});
  expect_has(error("n.csv", "text,other,more\na,b,c\n"),
             {"no column is known to hold labels", "(--label-column "});
}

TEST_F(LoadText, without_a_header_the_label_is_told_by_content) {
  const auto order = [&](const std::string& bytes,
                         const TextOptions& options = {.no_header = true}) {
    const auto data = load("n.tsv", bytes, options);
    return data.text_column + data.label_column;
  };
  EXPECT_EQ(order("a fine film\t1\na dull one\t0\n"), "01");
  EXPECT_EQ(order("pos\ta fine film\nneg\ta dull one\n"), "10");
  EXPECT_EQ(order("很好看的电影\t好\n不好看的电影\t坏\n真的很好看\t好\n"), "01");
  EXPECT_EQ(order("not spam\tsee you at ten\nspam\tyou win\nspam\tcall us now\nspam\tand more\n"),
            "10");
  EXPECT_EQ(order("a\tb\n", {.label_column = "0", .no_header = true}), "10");
  EXPECT_EQ(order("a\tb\n", {.text_column = "0", .no_header = true}), "01");
  // Single words under class names of two words: the signs differ.
  expect_has(error("n.tsv", "good\tvery nice\nfine\tvery nice\nbad\tvery sad\ndull\tvery sad\n",
                   {.no_header = true}),
             {"not clear"});
  const std::string hint = error("n.tsv", "good\tfine\nbad\tdull\n", {.no_header = true});
  expect_has(hint,
             {"not clear", "0: \"good\", 1: \"fine\"", "(--text-column ", "(--label-column "});
  expect_has(error("n.tsv", "a b\tc\td e\n", {.no_header = true}), {"0: \"a b\""});
  expect_has(error("n.tsv", "only texts\n", {.no_header = true}), {"0: \"only texts\""});
  const auto texts = load("n.tsv", "one\n\ntwo\n", {.no_header = true}, LabelNeed::ignored);
  EXPECT_EQ(texts.texts, (Texts{"one", "", "two"}));
}

TEST_F(LoadText, an_empty_text_is_a_row_and_a_missing_one_is_not) {
  const auto data = load("a.csv", "text,label\n,1\n\"\",0\n  , x \n");
  EXPECT_EQ(data.texts, (Texts{"", "", "  "}));
  EXPECT_EQ(data.labels, (Texts{"1", "0", "x"}));
  EXPECT_EQ(data.source_rows, (std::vector<int64_t>{1, 2, 3}));
  expect_has(error("a.jsonl", "{\"text\": \"\", \"label\": 1}\n\n{\"label\": 0}\n"),
             {"a.jsonl: row 2 (line 3) has no \"text\"", "--skip-bad-rows"});
  expect_has(
      error("a.jsonl", "{\"text\": \"a\", \"label\": 1}\n{\"text\": \"b\", \"label\": null}\n"),
      {"row 2 (line 2) has no \"label\""});
  expect_has(error("a.csv", "text,label\na,1\nb,\n"), {"row 2 (line 3) has no \"label\""});
  expect_has(error("a.csv", "text,label\na,1\nb,  \n"), {"row 2 (line 3) has no \"label\""});
  expect_has(error("a.tsv", "sentence\tlabel\na fine film\t1\nno label here\n"),
             {"row 2 (line 3) has 1 field, the header has 2"});
  expect_has(error("a.tsv", "s\tsentence1\tsentence2\tlabel\n1\ta\t\t1\n2\ta\n"),
             {"row 2 (line 3)"});
  expect_has(error("a.jsonl", "{\"text\": [\"a\", \"b\"], \"label\": 1}\n"),
             {"\"text\" holds lists"});
}

TEST_F(LoadText, bad_rows_are_skipped_counted_and_ten_are_listed) {
  std::string bytes = "text,label\n";
  for (int i = 0; i < 14; ++i) bytes += "good " + std::to_string(i) + ",1\nbad\n";
  bytes += "no label,\n";
  const auto data = load("s.csv", bytes, {.skip_bad_rows = true});
  EXPECT_EQ(data.rows(), 14);
  EXPECT_EQ(data.source_rows.back(), 27);
  EXPECT_EQ(data.skipped.size(), 15u);
  ASSERT_EQ(log.lines.size(), 1u);
  expect_has(log.all(), {"s.csv: left out 15 rows: row 2 (line 3) has 1 field", "(5 more)"});
  EXPECT_EQ(log.all().find("row 24"), std::string::npos);
  expect_has(error("s.csv", "text,label\na\nb\n", {.skip_bad_rows = true}), {"every row is bad"});
  expect_has(error("s.csv", "text,label\na,\nb,\n", {.skip_bad_rows = true}), {"every row is bad"});
}

TEST_F(LoadText, rows_behind_max_rows_are_not_judged) {
  const std::string bytes = "text,label\na,1\nb,0\nbad\nc,\n";
  EXPECT_EQ(load("m.csv", bytes, {}, LabelNeed::required, 2).texts, (Texts{"a", "b"}));
  expect_has(error_of([&] { load("m.csv", bytes, {}, LabelNeed::required, 3); }),
             {"row 3 (line 4)"});
}

TEST_F(LoadText, labels_are_read_only_where_they_are_needed) {
  EXPECT_TRUE(load("i.csv", "text,label\na,\n", {}, LabelNeed::ignored).labels.empty());
  EXPECT_TRUE(load("i.csv", "text,id\na,1\n", {}, LabelNeed::optional).labels.empty());
  EXPECT_EQ(load("i.csv", "text,label\na,1\n", {}, LabelNeed::optional).labels, (Texts{"1"}));
}

TEST_F(LoadText, real_files_are_read_whole) {
  const std::string folder = YOKE_SHARED_DIR "/data/";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "needs the shared data";
  const auto read = [&](const std::string& name, const TextOptions& options = {},
                        LabelNeed need = LabelNeed::required) {
    return load_text_dataset(folder + name, options, need);
  };
  EXPECT_EQ(read("glue/SST-2/dev.tsv").rows(), 872);
  EXPECT_EQ(read("glue/SST-2/test.tsv", {}, LabelNeed::ignored).rows(), 1821);
  const auto rte = read("glue/RTE/train.tsv");
  EXPECT_EQ(rte.rows(), 2490);
  EXPECT_EQ(rte.pairs[0], "Weapons of Mass Destruction Found in Iraq.");
  EXPECT_EQ(rte.labels[0], "not_entailment");
  const auto trec = read("trec6/train_5500.label", {.encoding = "iso-8859-1"});
  EXPECT_EQ(trec.rows(), 5452);
  EXPECT_EQ(trec.labels[1], "ENTY:cremat");
}

class TokenizeText : public testing::Test {
 protected:
  void SetUp() override {
    files.write("vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\nb\nc\n");
    tokenizer.emplace(
        Tokenizer::from_folder(std::filesystem::path(files.path("vocab.txt")).parent_path()));
    PhiloxStream random(1, 2);
    for (int row = 0; row < 1000; ++row) {
      std::string text;
      for (int64_t n = int64_t(random.below(12)); n > 0; --n)
        text += std::string(1, char('a' + random.below(4))) + " ";
      data.texts.push_back(text);
      data.source_rows.push_back(row + 1);
    }
    data.file = "t.csv";
  }
  TempFiles files;
  std::optional<Tokenizer> tokenizer;
  TextDataset data;
};

TEST_F(TokenizeText, every_number_of_threads_gives_the_rows_of_the_tokenizer) {
  const auto one = tokenize(data, *tokenizer, 8, 1);
  int64_t cut = 0;
  for (size_t row = 0; row < data.texts.size(); ++row) {
    const auto encoding = tokenizer->encode(data.texts[row], {.max_length = 8});
    ASSERT_EQ(one.input_ids[row], encoding.ids);
    cut += tokenizer->encode(data.texts[row]).ids.size() > 8;
  }
  EXPECT_GT(cut, 0);
  EXPECT_EQ(one.shortened, cut);
  EXPECT_TRUE(one.token_type_ids.empty());
  for (int threads : {0, 2, 3, 8}) {
    const auto many = tokenize(data, *tokenizer, 8, threads);
    EXPECT_EQ(many.input_ids, one.input_ids);
    EXPECT_EQ(many.shortened, one.shortened);
  }
}

TEST_F(TokenizeText, pairs_have_types) {
  data.texts = {"a b", ""};
  data.pairs = {"c", ""};
  const auto rows = tokenize(data, *tokenizer, 0);
  EXPECT_EQ(rows.input_ids, (std::vector<std::vector<int32_t>>{{2, 5, 6, 3, 7, 3}, {2, 3, 3}}));
  EXPECT_EQ(rows.token_type_ids,
            (std::vector<std::vector<int32_t>>{{0, 0, 0, 0, 1, 1}, {0, 0, 1}}));
}

TEST_F(TokenizeText, the_first_bad_row_is_the_error_for_every_number_of_threads) {
  // 319 ends one thread's rows, which take long, and 320 begins another's.
  for (size_t row = 256; row < 319; ++row) data.texts[row] = std::string(5000, '!');
  for (size_t row : {900, 320, 319}) data.texts[row] = "a\xFF";
  for (int threads : {1, 2, 8})
    for (int repeat = 0; repeat < 20; ++repeat)
      expect_has(error_of([&] { tokenize(data, *tokenizer, 8, threads); }), {"t.csv: row 320: "});
}

}  // namespace
}  // namespace yoke
