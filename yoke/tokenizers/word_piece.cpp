#include "yoke/tokenizers/word_piece.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "yoke/core/error.h"
#include "yoke/tokenizers/unicode.h"

namespace yoke {
namespace {

// Tries the prefixes of `word` of at most `max_bytes` from the longest to the shortest. Their
// hashes come from one walk and wait on the stack; longer tokens than its size are rare, and hashed
// anew.
template <class Find>
size_t longest_prefix(std::string_view word, size_t max_bytes, int32_t& id, const Find& find) {
  constexpr size_t room = 64;
  uint64_t hashes[room + 1];
  const size_t limit = std::min(word.size(), max_bytes);
  for (size_t size = limit; size > room; --size) {
    if (size < word.size() && is_continuation(word[size])) continue;
    const std::string_view prefix = word.substr(0, size);
    if ((id = find(prefix, Fnv::of(prefix))) >= 0) return size;
  }
  const size_t walked = std::min(limit, room);
  hashes[0] = Fnv::start;
  for (size_t i = 0; i < walked; ++i) hashes[i + 1] = Fnv::next(hashes[i], word[i]);
  for (size_t size = walked; size > 0; --size) {
    if (size < word.size() && is_continuation(word[size])) continue;
    if ((id = find(word.substr(0, size), hashes[size])) >= 0) return size;
  }
  return 0;
}

}  // namespace

WordPiece::WordPiece(Vocabulary vocabulary, WordPieceOptions options)
    : vocabulary_(std::move(vocabulary)), options_(std::move(options)) {
  const std::string& prefix = options_.continuing_subword_prefix;
  if (vocabulary_.size() == 0)
    throw Error("tokenizer.load", options_.file + ": the vocabulary is empty",
                "a complete copy of the file");
  const auto unk = vocabulary_.find(options_.unk_token);
  if (!unk)
    throw Error("tokenizer.load",
                fmt::format("{}: the vocabulary has no unknown token \"{}\"", options_.file,
                            options_.unk_token),
                "\"unk_token\" in tokenizer_config.json");
  unk_id_ = *unk;
  const auto key_of = [this](int32_t id) { return continuation(id); };
  for (int64_t id = 0; id < vocabulary_.ids_end(); ++id) {
    const auto token = vocabulary_.text(id);
    if (!token || !token->starts_with(prefix) || token->size() == prefix.size()) continue;
    const std::string_view rest = token->substr(prefix.size());
    continuations_.insert(Fnv::of(rest), int32_t(id), key_of);
    max_continuation_ = std::max(max_continuation_, rest.size());
  }
}

WordPiece::Match WordPiece::longest_start(std::string_view word) const {
  Match match;
  match.size = longest_prefix(word, vocabulary_.max_bytes(), match.id,
                              [&](std::string_view prefix, uint64_t hash) {
                                return vocabulary_.find_hashed(prefix, hash);
                              });
  return match;
}

WordPiece::Match WordPiece::longest_continuation(std::string_view rest) const {
  const auto key_of = [this](int32_t id) { return continuation(id); };
  Match match;
  match.size = longest_prefix(rest, max_continuation_, match.id,
                              [&](std::string_view prefix, uint64_t hash) {
                                return continuations_.find(prefix, hash, key_of);
                              });
  return match;
}

void WordPiece::tokenize(std::string_view text, uint32_t begin, uint32_t end,
                         std::vector<Token>& tokens) const {
  const std::string_view word = text.substr(begin, end - begin);
  const size_t before = tokens.size();
  // Bytes bound code points from above.
  if (int64_t(word.size()) <= options_.max_input_chars_per_word ||
      int64_t(count_code_points(word)) <= options_.max_input_chars_per_word) {
    Match match = longest_start(word);
    size_t at = 0;
    while (match.size > 0) {
      tokens.push_back({match.id, begin + uint32_t(at), begin + uint32_t(at + match.size)});
      at += match.size;
      if (at == word.size()) return;
      match = longest_continuation(word.substr(at));
    }
    tokens.resize(before);
  }
  tokens.push_back({unk_id_, begin, end});
}

}  // namespace yoke
