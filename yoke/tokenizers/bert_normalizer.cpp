#include "yoke/tokenizers/bert_normalizer.h"

#include <algorithm>
#include <vector>

namespace yoke {

BertNormalizer::BertNormalizer(BertNormalizerOptions options)
    : options_(options), strip_(options.strip_accents.value_or(options.lowercase)) {
  for (char32_t c = 0; c < 128; ++c) {
    const uint16_t classes = class_of(c);
    char32_t to = c;
    if (options_.clean_text) {
      removed_[c] = has(classes, CharClass::removed);
      if (has(classes, CharClass::space)) to = ' ';
    }
    if (options_.lowercase) to = lower_case(to);
    ascii_[c] = char(to);
  }
}

// One pass over a text. The peer runs four passes, each of which hands origins on (Note [Origins]);
// only one of them, NFD, looks beyond a single code point: it sorts the marks behind a starter. So
// a code point goes through all stages at once, and what may still be reordered waits in `marks_`.
struct BertNormalizer::Pass {
  // What NFD will say of a code point, before its marks are sorted.
  struct Pending {
    uint8_t combining_class;
    char32_t c;
    bool inserted;  // not the first of a decomposition
  };

  Pass(const BertNormalizer& normalizer, NormalizedText& to) : self(normalizer), out(to) {}

  const BertNormalizer& self;
  NormalizedText& out;
  std::vector<Pending> marks_;     // a starter and what stands behind it
  std::vector<uint32_t> origins_;  // of the code points that went into marks_
  size_t consumed_ = 0;            // of origins_
  uint32_t last_origin_ = 0;

  void put(char32_t c, uint32_t origin) {
    append_utf8(out.text, c);
    if (out.tracked) out.origins.resize(out.text.size(), origin);
  }

  void put_lower(char32_t c, uint16_t classes, uint32_t origin) {
    if (!self.options_.lowercase || !has(classes, CharClass::lower)) return put(c, origin);
    put(lower_case(c), origin);
    if (is_double_lower(c)) put(0x307, origin);
  }

  void push(char32_t c, bool inserted) {
    const uint8_t combining = combining_class(c);
    if (combining == 0) emit_marks();
    marks_.push_back({combining, c, inserted});
  }

  // Sorted code points take origins in the order in which they come out.
  void emit_marks() {
    if (marks_.empty()) return;
    if (marks_.size() > 2 || marks_.front().combining_class != 0)
      std::stable_sort(marks_.begin(), marks_.end(), [](const Pending& a, const Pending& b) {
        return a.combining_class < b.combining_class;
      });
    for (const Pending& pending : marks_) {
      if (!pending.inserted) last_origin_ = origins_[consumed_++];
      const uint16_t classes = class_of(pending.c);
      if (!has(classes, CharClass::nonspacing_mark)) put_lower(pending.c, classes, last_origin_);
    }
    marks_.clear();
    // What is left belongs to the code point under way.
    origins_.erase(origins_.begin(), origins_.begin() + std::ptrdiff_t(consumed_));
    consumed_ = 0;
  }

  void decompose_and_put(char32_t c, uint16_t classes, uint32_t origin) {
    if (!has(classes, CharClass::decomposes) && !has(classes, CharClass::reorders)) {
      emit_marks();
      // A starter alone can be put at once: no later mark sorts before it.
      if (!has(classes, CharClass::nonspacing_mark)) put_lower(c, classes, origin);
      return;
    }
    origins_.push_back(origin);
    if (!has(classes, CharClass::decomposes)) return push(c, false);
    const Decomposition parts = decompose(c, false);
    for (int i = 0; i < parts.size; ++i) push(parts.points[i], i > 0);
  }

  void add(char32_t c, uint32_t origin) {
    uint16_t classes = class_of(c);
    if (self.options_.clean_text) {
      if (has(classes, CharClass::removed)) return;
      if (has(classes, CharClass::space)) {
        emit_marks();
        return put(' ', origin);
      }
    }
    const bool chinese = self.options_.handle_chinese_chars && has(classes, CharClass::chinese);
    if (chinese) {
      emit_marks();
      put(' ', origin);
    }
    if (self.strip_)
      decompose_and_put(c, classes, origin);
    else
      put_lower(c, classes, origin);
    if (chinese) {
      emit_marks();
      put(' ', origin);
    }
  }

  void add_ascii(std::string_view run, const uint32_t* origins) {
    // A byte that stays is a starter; one that vanishes does not part the marks around it.
    if (!marks_.empty()) {
      if (std::all_of(run.begin(), run.end(), [&](char c) { return self.removed_[uint8_t(c)]; }))
        return;
      emit_marks();
    }
    const size_t before = out.text.size();
    out.text.resize(before + run.size());
    char* to = out.text.data() + before;
    size_t kept = 0;
    for (size_t i = 0; i < run.size(); ++i) {
      const auto byte = uint8_t(run[i]);
      to[kept] = self.ascii_[byte];
      if (origins && !self.removed_[byte]) out.origins.push_back(origins[i]);
      kept += !self.removed_[byte];
    }
    out.text.resize(before + kept);
  }
};

void BertNormalizer::normalize(NormalizedText& text) const {
  thread_local NormalizedText next;
  next.text.clear();
  next.origins.clear();
  next.tracked = text.tracked;
  Pass pass(*this, next);
  const std::string& s = text.text;
  for (size_t at = 0; at < s.size();) {
    size_t end = at;
    while (end < s.size() && uint8_t(s[end]) < 0x80) ++end;
    if (end > at) {
      pass.add_ascii(std::string_view(s).substr(at, end - at),
                     text.tracked ? text.origins.data() + at : nullptr);
      at = end;
      continue;
    }
    const uint32_t origin = text.tracked ? text.origins[at] : 0;
    pass.add(next_code_point(s, at), origin);
  }
  pass.emit_marks();
  text.swap(next);
}

}  // namespace yoke
