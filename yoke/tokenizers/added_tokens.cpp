#include "yoke/tokenizers/added_tokens.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace yoke {

void StringMatcher::add(std::string_view pattern, size_t index) {
  if (pattern.empty()) return;
  uint32_t node = 0;
  for (const char byte : pattern) {
    if (const uint32_t* next = step(node, byte)) {
      node = *next;
    } else {
      const auto made = uint32_t(nodes_.size());
      nodes_[node].next.emplace_back(byte, made);
      nodes_.emplace_back();
      node = made;
    }
  }
  if (nodes_[node].pattern < 0) nodes_[node].pattern = int64_t(index);
  bool& known = starts_[uint8_t(pattern[0])];
  if (!known) {
    known = true;
    ++start_count_;
    start_ = pattern[0];
  }
}

const uint32_t* StringMatcher::step(uint32_t node, char byte) const {
  for (const auto& [key, next] : nodes_[node].next)
    if (key == byte) return &next;
  return nullptr;
}

size_t StringMatcher::next_start(std::string_view text, size_t from) const {
  if (from >= text.size()) return std::string_view::npos;
  if (start_count_ == 1) return text.find(start_, from);  // memchr
  for (size_t i = from; i < text.size(); ++i)
    if (starts_[uint8_t(text[i])]) return i;
  return std::string_view::npos;
}

std::optional<StringMatcher::Match> StringMatcher::find(std::string_view text, size_t from) const {
  if (empty()) return std::nullopt;
  for (size_t begin = next_start(text, from); begin != std::string_view::npos;
       begin = next_start(text, begin + 1)) {
    std::optional<Match> match;
    uint32_t node = 0;
    for (size_t at = begin; at < text.size(); ++at) {
      const uint32_t* next = step(node, text[at]);
      if (!next) break;
      node = *next;
      if (nodes_[node].pattern >= 0) match = {begin, at + 1, size_t(nodes_[node].pattern)};
    }
    if (match) return match;
  }
  return std::nullopt;
}

AddedTokens::AddedTokens(std::vector<AddedToken> tokens, const Normalizer* normalizer)
    : tokens_(std::move(tokens)) {
  // Of two tokens with one content the peer prefers the special one.
  std::vector<size_t> order;
  for (const bool special : {true, false})
    for (size_t i = 0; i < tokens_.size(); ++i)
      if (tokens_[i].special == special) order.push_back(i);
  for (const size_t i : order) {
    AddedToken& token = tokens_[i];
    token.text = token.content;
    by_content_.emplace(token.content, i);
    by_id_.emplace(token.id, i);
    if (!token.normalized) {
      raw_.add(token.content, i);
    } else {
      NormalizedText content;
      content.assign(token.content, 0, false);
      if (normalizer) normalizer->normalize(content);
      normalized_.add(content.text, i);
      token.text = std::move(content.text);
    }
  }
}

void AddedTokens::split(std::string_view text, Stage stage, std::vector<Span>& spans) const {
  const auto class_before = [&](size_t at) { return class_of(previous_code_point(text, at)); };
  const auto class_behind = [&](size_t at) { return class_of(next_code_point(text, at)); };
  spans.clear();
  size_t done = 0, from = 0;
  while (const auto match = matcher(stage).find(text, from)) {
    const AddedToken& token = tokens_[match->pattern];
    size_t begin = match->begin, end = match->end;
    from = match->end;
    if (token.single_word) {
      if (begin > 0 && has(class_before(begin), CharClass::word)) continue;
      if (end < text.size() && has(class_behind(end), CharClass::word)) continue;
    }
    if (token.lstrip) {
      while (begin > done && has(class_before(begin), CharClass::space))
        previous_code_point(text, begin);
    }
    if (token.rstrip) {
      while (end < text.size() && has(class_behind(end), CharClass::space))
        next_code_point(text, end);
    }
    if (done < begin) spans.push_back({-1, done, begin});
    spans.push_back({int64_t(match->pattern), begin, end});
    done = end;
  }
  if (done < text.size()) spans.push_back({-1, done, text.size()});
}

const AddedToken* AddedTokens::find(std::string_view content) const {
  const auto found = by_content_.find(std::string(content));
  return found == by_content_.end() ? nullptr : &tokens_[found->second];
}

const AddedToken* AddedTokens::find_id(int64_t id) const {
  const auto found = by_id_.find(id);
  return found == by_id_.end() ? nullptr : &tokens_[found->second];
}

}  // namespace yoke
