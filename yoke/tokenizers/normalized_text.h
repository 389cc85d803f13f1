// A piece of the input on its way through the pipeline: its present text and, on request, where
// each byte of it came from.
//
//   NormalizedText text;
//   text.assign("Café", 0, true);
//   normalizer.normalize(text);                       // text.text == "cafe"
//   text.origins[3] == 3                              // the code point of the input
//
// A Rewriter makes the next version from the last, with the peer's rule for origins. One thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "yoke/tokenizers/unicode.h"

namespace yoke {

struct NormalizedText {
  std::string text;               // well-formed UTF-8
  std::vector<uint32_t> origins;  // of each byte: the index of its code point in the input
  bool tracked = false;           // whether origins are kept

  // `first` is the index of the first code point of `piece` in the whole input.
  void assign(std::string_view piece, uint32_t first, bool track);
  void swap(NormalizedText& other) noexcept;
};

// Note [Origins]
// Hugging Face tokenizers describes a rewriting as a sequence of (new code point, change): change 0
// stands for the next old code point, change 1 is inserted behind the last one (and shares its
// origin), change -n stands for the next old code point and swallows n more. Origins follow from
// this sequence alone, also where NFD has exchanged marks, so to be equal to it we state our
// rewritings in the same terms.
class Rewriter {
 public:
  // Appends to `to`, which it clears; both must outlive it.
  Rewriter(const NormalizedText& from, NormalizedText& to);

  // Old code points that vanish before the first emitted one.
  void skip(size_t count) { advance(count); }
  void emit(char32_t c, int change) {
    append_utf8(to_.text, c);
    if (to_.tracked) track(change);
  }

 private:
  void advance(size_t count);
  void track(int change);

  const NormalizedText& from_;
  NormalizedText& to_;
  size_t at_ = 0;  // bytes of from_ that are stood for
};

// Keeps the code points for which keep(c) holds, as in the peer's filter.
template <class Keep>
void filter(NormalizedText& text, const Keep& keep) {
  NormalizedText next;
  Rewriter rewriter(text, next);
  char32_t waiting = 0;
  int removed = 0;
  bool have = false;
  for (size_t at = 0; at < text.text.size();) {
    const char32_t c = next_code_point(text.text, at);
    if (!keep(c)) {
      ++removed;
      continue;
    }
    if (have)
      rewriter.emit(waiting, -removed);
    else
      rewriter.skip(size_t(removed));
    removed = 0;
    waiting = c;
    have = true;
  }
  if (have) rewriter.emit(waiting, -removed);
  text.swap(next);
}

}  // namespace yoke
