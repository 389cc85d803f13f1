// Tokens that are found in the text before the model sees it ("[MASK]", what users add), with the
// rules of Hugging Face's AddedToken.
//
//   AddedTokens added(tokens, normalizer.get());
//   added.split(text, AddedTokens::Stage::raw, spans);     // spans cover the text in order
//
// Const methods are safe from many threads.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "yoke/tokenizers/normalizer.h"

namespace yoke {

struct AddedToken {
  std::string content;
  int32_t id = 0;
  bool special = false;      // left out by decode(…, skip_special_tokens)
  bool single_word = false;  // not where a \w stands before or behind
  bool lstrip = false;       // takes the white space before it
  bool rstrip = false;       // … and behind it
  bool normalized = false;   // is normalised and looked for in the normalised text
  std::string text;          // what id_to_token and decode give: content, normalised where that is
};

// Leftmost-longest search for any of some strings.
class StringMatcher {
 public:
  struct Match {
    size_t begin = 0, end = 0, pattern = 0;
  };
  // Of two equal patterns the first counts. Empty ones are ignored.
  void add(std::string_view pattern, size_t index);
  bool empty() const { return nodes_.size() == 1; }
  // The next match at or behind `from`.
  std::optional<Match> find(std::string_view text, size_t from) const;

 private:
  struct Node {
    std::vector<std::pair<char, uint32_t>> next;
    int64_t pattern = -1;
  };
  const uint32_t* step(uint32_t node, char byte) const;
  size_t next_start(std::string_view text, size_t from) const;

  std::vector<Node> nodes_{1};
  std::array<bool, 256> starts_{};
  int start_count_ = 0;
  char start_ = 0;  // the only first byte, when there is one
};

class AddedTokens {
 public:
  enum class Stage { raw, normalized };

  // A span of the text: an added token (index into tokens()) or, with -1, what lies between.
  struct Span {
    int64_t token = -1;
    size_t begin = 0, end = 0;
  };

  AddedTokens() = default;
  // `normalizer` may be null; it is used here only.
  AddedTokens(std::vector<AddedToken> tokens, const Normalizer* normalizer);

  const std::vector<AddedToken>& tokens() const { return tokens_; }
  bool has_tokens(Stage stage) const { return !matcher(stage).empty(); }
  // Replaces `spans`; neither the spans nor the text between tokens are empty.
  void split(std::string_view text, Stage stage, std::vector<Span>& spans) const;

  const AddedToken* find(std::string_view content) const;
  const AddedToken* find_id(int64_t id) const;

 private:
  const StringMatcher& matcher(Stage stage) const {
    return stage == Stage::raw ? raw_ : normalized_;
  }

  std::vector<AddedToken> tokens_;
  StringMatcher raw_, normalized_;
  std::unordered_map<std::string, size_t> by_content_;
  std::unordered_map<int64_t, size_t> by_id_;
};

}  // namespace yoke
