// Rows of words ready for a model that labels tokens.
//
//   TextRows rows = token_rows(dataset, tokenizer, 128);
//   set_token_labels(rows, dataset, labels);                 // where there are labels
//
// As in transformers' recipe the first piece of a word stands for it: it carries the word's label,
// and its prediction is the word's. Other pieces and special tokens are no targets, and neither is
// a word that became no piece or that truncation cut off.
#pragma once

#include "yoke/data/labels.h"
#include "yoke/data/token_dataset.h"
#include "yoke/tokenizers/tokenizer.h"
#include "yoke/train/text_rows.h"

namespace yoke {

// Everything but the labels. Throws Error for a row without any token.
TextRows token_rows(const TokenDataset& data, const Tokenizer& tokenizer, int64_t max_length);

// Fills token_labels and targets. Throws Error for a label that the model has no place for.
void set_token_labels(TextRows& rows, const TokenDataset& data, const LabelMap& labels);

}  // namespace yoke
