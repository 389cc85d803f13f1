#include "yoke/train/token_rows.h"

#include "yoke/data/ignored_label.h"

namespace yoke {

TextRows token_rows(const TokenDataset& data, const Tokenizer& tokenizer, int64_t max_length) {
  TextRows rows;
  rows.tokens = tokenize(data, tokenizer, max_length);
  rows.file = data.file;
  rows.source_rows = data.source_rows;
  rows.words = data.tokens;
  for (size_t row = 0; row < rows.words.size(); ++row) {
    const auto& word_ids = rows.tokens.word_ids[row];
    auto& firsts = rows.first_pieces.emplace_back(rows.words[row].size(), -1);
    for (size_t at = word_ids.size(); at-- > 0;)
      if (word_ids[at] >= 0) firsts[size_t(word_ids[at])] = int32_t(at);
  }
  return rows;
}

void set_token_labels(TextRows& rows, const TokenDataset& data, const LabelMap& labels) {
  const auto classes = labels.class_ids(data);
  for (size_t row = 0; row < rows.words.size(); ++row) {
    auto& targets =
        rows.token_labels.emplace_back(rows.tokens.input_ids[row].size(), ignored_label);
    int64_t count = 0;
    for (size_t word = 0; word < rows.words[row].size(); ++word) {
      const int32_t at = rows.first_pieces[row][word];
      const int32_t label = data.labels[row][word];
      if (at < 0 || label == ignored_label) continue;
      targets[size_t(at)] = classes[size_t(label)];
      ++count;
    }
    rows.targets.push_back(count);
  }
}

}  // namespace yoke
