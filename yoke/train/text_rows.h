// Rows of text, or of words (yoke/train/token_rows.h), ready for a model: ids, labels as numbers,
// and where each came from.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "yoke/data/batch_plan.h"
#include "yoke/data/packed_batch.h"
#include "yoke/data/text_dataset.h"

namespace yoke {

struct TextRows {
  TokenizedRows tokens;
  std::vector<int64_t> lengths;       // tokens of each row
  std::vector<int64_t> class_labels;  // classification: one a row; empty without labels
  std::vector<double> values;         // regression: one a row
  // Token classification: one for each token, ignored_label for no target.
  std::vector<std::vector<int64_t>> token_labels;
  std::vector<int64_t> targets;  // how many each row has; empty without labels

  // Token classification: the words of each row, and the token that stands for each (-1: none).
  std::vector<std::vector<std::string>> words;
  std::vector<std::vector<int32_t>> first_pieces;

  std::string file;                  // for messages
  std::vector<int64_t> source_rows;  // row of the file, from 1

  int64_t size() const { return int64_t(lengths.size()); }
};

// A micro-batch on the host, with its labels where the rows have them.
PackedBatch pack_rows(const TextRows& rows, const MicroBatch& micro);

// "rows 3, 7, 12 of train.csv".
std::string describe_rows(const TextRows& rows, const std::vector<int64_t>& which);

}  // namespace yoke
