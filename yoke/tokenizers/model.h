// The third stage: turns one piece (a word) into tokens.
//
// Const methods are safe from many threads.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "yoke/tokenizers/vocabulary.h"

namespace yoke {

// A token and the bytes [begin, end) of the normalised text that it stands for.
struct Token {
  int32_t id = 0;
  uint32_t begin = 0, end = 0;
};

class Model {
 public:
  virtual ~Model() = default;
  // Appends the tokens of text[begin, end), which is not empty.
  virtual void tokenize(std::string_view text, uint32_t begin, uint32_t end,
                        std::vector<Token>& tokens) const = 0;
  virtual const Vocabulary& vocabulary() const = 0;
  // The token for what the vocabulary cannot spell; empty when the family has none.
  virtual std::string unk_token() const { return ""; }
};

}  // namespace yoke
