// Texts and labels of a file, and their ids.
//
//   const TextDataset data = load_text_dataset("train.csv", {}, LabelNeed::required);
//   const TokenizedRows rows = tokenize(data, tokenizer, 128);
//
// Safe from any thread; a dataset is plain data.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "yoke/data/text_options.h"
#include "yoke/tokenizers/tokenizer.h"

namespace yoke {

enum class LabelNeed {
  required,  // a file without a label column is an error
  optional,  // labels where there is such a column
  ignored
};

struct TextDataset {
  std::vector<std::string> texts;
  std::vector<std::string> pairs;    // empty, or one a row
  std::vector<std::string> labels;   // without blanks around them; empty, or one a row
  std::vector<int64_t> source_rows;  // from 1
  std::vector<int64_t> lines;        // from 1; 0 where the file has no lines (Parquet)
  std::string file;
  std::vector<std::string> skipped;  // with skip_bad_rows: "row 3 (line 4) has no \"label\""

  // The columns that were read; empty where there was none.
  std::string text_column, text_pair_column, label_column;

  int64_t rows() const { return int64_t(texts.size()); }
  // "train.csv: row 3 (line 4)", for errors.
  std::string describe(int64_t row) const;
};

// Finds text, pair and label columns by name, without regard to case (text, sentence, sentence1 and
// sentence2, question, …; label, labels, class, category, target, …), or as the options give them:
// by name, else by number from 0. Two columns without a header are told apart by their content. An
// empty text is a row; a missing field or label is an error with its row, or with skip_bad_rows
// left out, counted and listed in a warning. max_rows: 0 for all; rows behind them are not judged.
// Throws Error("data.read"); without a known column it shows header and first row and says what to
// give.
TextDataset load_text_dataset(const std::string& path, const TextOptions& options, LabelNeed need,
                              int64_t max_rows = 0);

struct TokenizedRows {
  std::vector<std::vector<int32_t>> input_ids;
  std::vector<std::vector<int32_t>> token_type_ids;  // empty when there are no pairs
  // Of rows of words (yoke/data/token_dataset.h): the word that each token is a piece of, -1 for
  // special tokens. Else empty.
  std::vector<std::vector<int32_t>> word_ids;
  int64_t shortened = 0;  // rows cut to max_length
};

// In parallel over rows; neither the result nor the error (the first row's) depends on the number
// of threads. threads: 0 for PyTorch's.
TokenizedRows tokenize(const TextDataset& data, const Tokenizer& tokenizer, int64_t max_length,
                       int threads = 0);

}  // namespace yoke
