// WordPiece (Wu et al. 2016, "Google's Neural Machine Translation System"): a word becomes the
// longest token that starts it, then the longest continuing one ("##…"), and so on; a word that
// cannot be spelled, or is too long, is one unknown token.
//
//   WordPiece model(std::move(vocabulary), {});
//   model.tokenize("unaffable", 0, 9, tokens);       // un ##aff ##able
#pragma once

#include "yoke/tokenizers/model.h"

namespace yoke {

struct WordPieceOptions {
  std::string unk_token = "[UNK]";
  std::string continuing_subword_prefix = "##";
  int64_t max_input_chars_per_word = 100;
  std::string file = "vocab.txt";  // named in errors
};

class WordPiece : public Model {
 public:
  // Throws Error when the vocabulary is empty or lacks the unknown token.
  WordPiece(Vocabulary vocabulary, WordPieceOptions options);

  void tokenize(std::string_view text, uint32_t begin, uint32_t end,
                std::vector<Token>& tokens) const override;
  const Vocabulary& vocabulary() const override { return vocabulary_; }
  std::string unk_token() const override { return options_.unk_token; }

 private:
  struct Match {
    int32_t id = -1;
    size_t size = 0;
  };
  Match longest_start(std::string_view word) const;
  Match longest_continuation(std::string_view rest) const;
  std::string_view continuation(int32_t id) const {
    return vocabulary_.text(id)->substr(options_.continuing_subword_prefix.size());
  }

  Vocabulary vocabulary_;
  WordPieceOptions options_;
  FlatIndex continuations_;  // tokens with the prefix, by what follows it
  size_t max_continuation_ = 0;
  int32_t unk_id_ = 0;
};

}  // namespace yoke
