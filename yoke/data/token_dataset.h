// Words and their labels of a file, and their ids.
//
//   const TokenDataset data = load_token_dataset("train.jsonl", {}, LabelNeed::required);
//   const TokenizedRows rows = tokenize(data, tokenizer, 128);      // rows.word_ids leads back
//
// A row is {"tokens": ["John", "lives"], "labels": ["B-PER", "O"]}. Safe from any thread; a dataset
// is plain data.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "yoke/data/ignored_label.h"
#include "yoke/data/text_dataset.h"
#include "yoke/data/text_options.h"
#include "yoke/tokenizers/tokenizer.h"

namespace yoke {

struct TokenDataset {
  std::vector<std::vector<std::string>> tokens;  // words, one list a row
  // For each word an index into label_names, or ignored_label. Empty without labels.
  std::vector<std::vector<int32_t>> labels;
  std::vector<std::string> label_names;  // all different, in the order in which they first stand
  std::vector<std::pair<int64_t, int64_t>> label_places;  // row and word where each first stands
  std::vector<int64_t> source_rows;                       // from 1
  std::vector<int64_t> lines;                             // from 1; 0 where a file has no lines
  std::string file;
  std::vector<std::string>
      skipped;  // with skip_bad_rows: "row 3 (line 4) has 2 tokens and 1 label"

  // The columns that were read; empty where there was none.
  std::string token_column, label_column;

  int64_t rows() const { return int64_t(tokens.size()); }
  // "train.jsonl: row 3 (line 4)", for errors.
  std::string describe(int64_t row) const;
  // "train.jsonl: row 3 (line 4), token 2 (\"John\")": where a label first stands.
  std::string describe_label(size_t label) const;
};

// Reads lists of words and lists of labels: JSON lines, or Parquet with list columns. Columns are
// found by name, without regard to case (tokens, words; labels, ner_tags, tags, label, ner), or as
// text_column and label_column of the options give them. A label is a string or a whole number;
// -100 and null are no targets. A row whose lists differ in length, or that holds anything else, is
// an error with its row and line, or left out with skip_bad_rows. max_rows: 0 for all. Throws
// Error("data.read").
TokenDataset load_token_dataset(const std::string& path, const TextOptions& options, LabelNeed need,
                                int64_t max_rows = 0);

// In parallel, as for texts.
TokenizedRows tokenize(const TokenDataset& data, const Tokenizer& tokenizer, int64_t max_length,
                       int threads = 0);

// The words between white space, as Python's str.split() cuts. Throws Error for ill-formed UTF-8.
std::vector<std::string> split_words(std::string_view text);

}  // namespace yoke
