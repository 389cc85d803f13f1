#include "yoke/tokenizers/unicode.h"

#include <fmt/format.h>
#include <unicode/normalizer2.h>
#include <unicode/uchar.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <memory>

#include "yoke/core/error.h"
#include "yoke/tokenizers/unicode_tables.h"

namespace yoke {
namespace {

constexpr size_t code_points = 0x110000;

// Two bytes a code point, of which the untouched pages (most) stay the kernel's zero page.
class ClassTable {
 public:
  ClassTable() : classes_(static_cast<uint16_t*>(std::calloc(code_points, sizeof(uint16_t)))) {
    if (!classes_) throw std::bad_alloc();
    namespace tables = unicode_tables;
    fill(tables::removed, CharClass::removed);
    fill(tables::space, CharClass::space);
    fill(tables::punctuation, CharClass::punctuation);
    fill(tables::nonspacing_mark, CharClass::nonspacing_mark);
    fill(tables::mark, CharClass::mark);
    fill(tables::word, CharClass::word);
    fill(tables::chinese, CharClass::chinese);
    fill(tables::decomposes, CharClass::decomposes);
    fill(tables::reorders, CharClass::reorders);
    for (const auto& run : tables::lower)
      for (uint32_t c = run.first; c <= run.last; c += uint32_t(run.step))
        classes_[c] |= uint16_t(CharClass::lower);
    classes_[0x130] |= uint16_t(CharClass::lower);
  }
  ~ClassTable() { std::free(classes_); }
  uint16_t operator[](char32_t c) const { return classes_[c]; }

 private:
  void fill(std::span<const unicode_tables::Range> ranges, CharClass one) {
    for (const auto& range : ranges)
      for (uint32_t c = range.first; c <= range.last; ++c) classes_[c] |= uint16_t(one);
  }
  uint16_t* classes_;
};

// The peer's decompositions are those of Unicode 12.0. What a newer ICU adds is younger, and what
// it shares is frozen by the stability policy.
bool in_unicode_11(char32_t c) {
  UVersionInfo age;
  u_charAge(UChar32(c), age);
  return age[0] != 0 && age[0] <= 11;
}

const icu::Normalizer2& normalizer(bool compatible) {
  UErrorCode status = U_ZERO_ERROR;
  const auto* instance = compatible ? icu::Normalizer2::getNFKCInstance(status)
                                    : icu::Normalizer2::getNFCInstance(status);
  if (U_FAILURE(status) || !instance)
    throw Error("tokenizer", std::string("ICU has no normalisation data: ") + u_errorName(status),
                "a complete installation of ICU");
  return *instance;
}

}  // namespace

uint16_t class_of(char32_t c) {
  static const ClassTable table;
  return table[c];
}

char32_t lower_case(char32_t c) {
  if (c < 0x80) return c >= 'A' && c <= 'Z' ? c + 32 : c;
  if (is_double_lower(c)) return 'i';
  const auto& runs = unicode_tables::lower;
  auto run = std::upper_bound(runs.begin(), runs.end(), c,
                              [](char32_t v, const auto& r) { return v < r.first; });
  if (run == runs.begin()) return c;
  --run;
  if (c > run->last || (c - run->first) % uint32_t(run->step) != 0) return c;
  return char32_t(int32_t(c) + run->delta);
}

Decomposition decompose(char32_t c, bool compatible) {
  Decomposition result;
  icu::UnicodeString text;
  if (c >= 0xC0 && in_unicode_11(c) && normalizer(compatible).getDecomposition(UChar32(c), text)) {
    for (int32_t i = 0; i < text.length() && result.size < 18; i = text.moveIndex32(i, 1))
      result.points[result.size++] = char32_t(text.char32At(i));
  } else if (compatible && c >= 0xA0 && c < 0xC0 &&
             normalizer(compatible).getDecomposition(UChar32(c), text)) {
    for (int32_t i = 0; i < text.length(); ++i)
      result.points[result.size++] = char32_t(text.charAt(i));
  } else {
    result.points[result.size++] = c;
  }
  return result;
}

uint8_t combining_class(char32_t c) {
  return has(class_of(c), CharClass::reorders) ? u_getCombiningClass(UChar32(c)) : 0;
}

std::optional<char32_t> compose(char32_t a, char32_t b) {
  const UChar32 composed = normalizer(false).composePair(UChar32(a), UChar32(b));
  if (composed < 0 || !in_unicode_11(char32_t(composed))) return std::nullopt;
  return char32_t(composed);
}

std::optional<size_t> find_ill_formed(std::string_view text) {
  size_t i = 0;
  const size_t size = text.size();
  while (i < size) {
    uint64_t word;
    while (i + 8 <= size) {  // eight ASCII bytes at a time
      std::memcpy(&word, text.data() + i, 8);
      if (word & 0x8080808080808080ull) break;
      i += 8;
    }
    if (i == size) break;
    const auto first = uint8_t(text[i]);
    if (first < 0x80) {
      ++i;
      continue;
    }
    // The second byte's range excludes overlong forms, surrogates and what lies above U+10FFFF
    // (Unicode, table 3-7).
    int more = 0;
    uint8_t low = 0x80, high = 0xBF;
    if (first >= 0xC2 && first <= 0xDF) {
      more = 1;
    } else if (first >= 0xE0 && first <= 0xEF) {
      more = 2;
      if (first == 0xE0) low = 0xA0;
      if (first == 0xED) high = 0x9F;
    } else if (first >= 0xF0 && first <= 0xF4) {
      more = 3;
      if (first == 0xF0) low = 0x90;
      if (first == 0xF4) high = 0x8F;
    } else {
      return i;
    }
    if (size - i <= size_t(more)) return i;
    if (uint8_t(text[i + 1]) < low || uint8_t(text[i + 1]) > high) return i;
    for (int k = 2; k <= more; ++k)
      if (!is_continuation(text[i + size_t(k)])) return i;
    i += size_t(more) + 1;
  }
  return std::nullopt;
}

void check_utf8(std::string_view text, const std::string& where) {
  if (const auto at = find_ill_formed(text))
    throw Error(where,
                fmt::format("ill-formed UTF-8 at byte {} (0x{:02X})", *at, uint8_t(text[*at])),
                "text in UTF-8; for a file in another encoding, .data.encoding (--encoding)");
}

char32_t next_code_point(std::string_view text, size_t& at) {
  const auto byte = [&](size_t k) { return char32_t(uint8_t(text[at + k])); };
  const char32_t first = byte(0);
  char32_t c;
  if (first < 0x80) {
    at += 1;
    return first;
  }
  if (first < 0xE0) {
    c = (first & 0x1F) << 6 | (byte(1) & 0x3F);
    at += 2;
  } else if (first < 0xF0) {
    c = (first & 0x0F) << 12 | (byte(1) & 0x3F) << 6 | (byte(2) & 0x3F);
    at += 3;
  } else {
    c = (first & 0x07) << 18 | (byte(1) & 0x3F) << 12 | (byte(2) & 0x3F) << 6 | (byte(3) & 0x3F);
    at += 4;
  }
  return c;
}

char32_t previous_code_point(std::string_view text, size_t& at) {
  --at;
  while (at > 0 && is_continuation(text[at])) --at;
  size_t start = at;
  return next_code_point(text, start);
}

void append_utf8(std::string& text, char32_t c) {
  if (c < 0x80) {
    text.push_back(char(c));
  } else if (c < 0x800) {
    const char bytes[] = {char(0xC0 | c >> 6), char(0x80 | (c & 0x3F))};
    text.append(bytes, 2);
  } else if (c < 0x10000) {
    const char bytes[] = {char(0xE0 | c >> 12), char(0x80 | (c >> 6 & 0x3F)),
                          char(0x80 | (c & 0x3F))};
    text.append(bytes, 3);
  } else {
    const char bytes[] = {char(0xF0 | c >> 18), char(0x80 | (c >> 12 & 0x3F)),
                          char(0x80 | (c >> 6 & 0x3F)), char(0x80 | (c & 0x3F))};
    text.append(bytes, 4);
  }
}

size_t count_code_points(std::string_view text) {
  size_t count = 0;
  for (const char byte : text) count += !is_continuation(byte);
  return count;
}

}  // namespace yoke
