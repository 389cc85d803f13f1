#include "yoke/tokenizers/normalized_text.h"

#include <utility>

namespace yoke {

void NormalizedText::assign(std::string_view piece, uint32_t first, bool track) {
  text.assign(piece);
  origins.clear();
  tracked = track;
  if (!track) return;
  origins.reserve(piece.size());
  uint32_t index = first;
  for (size_t i = 0; i < piece.size(); ++i) {
    if (i > 0 && !is_continuation(piece[i])) ++index;
    origins.push_back(index);
  }
}

void NormalizedText::swap(NormalizedText& other) noexcept {
  text.swap(other.text);
  origins.swap(other.origins);
  std::swap(tracked, other.tracked);
}

Rewriter::Rewriter(const NormalizedText& from, NormalizedText& to) : from_(from), to_(to) {
  to_.text.clear();
  to_.origins.clear();
  to_.tracked = from.tracked;
  to_.text.reserve(from.text.size() + from.text.size() / 4 + 8);
}

void Rewriter::advance(size_t count) {
  for (; count > 0 && at_ < from_.text.size(); --count) at_ += size_t(utf8_length(from_.text[at_]));
}

void Rewriter::track(int change) {
  uint32_t origin = 0;
  if (change > 0) {
    if (at_ > 0) origin = from_.origins[at_ - 1];
  } else {
    if (at_ < from_.origins.size()) origin = from_.origins[at_];
    advance(size_t(1 - change));
  }
  to_.origins.resize(to_.text.size(), origin);
}

}  // namespace yoke
