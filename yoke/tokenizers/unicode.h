// Code points as Hugging Face tokenizers 0.23 sees them. It mixes versions of Unicode, so its
// classes are tables made from it (unicode_tables.cpp), not ICU's: a token never depends on the ICU
// of a machine.
//
//   if (has(class_of(c), CharClass::punctuation)) …
//
// Safe from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace yoke {

enum class CharClass : uint16_t {
  removed = 1,          // what BERT's cleaning drops: controls, formats, private use, NUL, U+FFFD
  space = 2,            // White_Space
  punctuation = 4,      // ASCII symbols and the P categories of Unicode 8
  nonspacing_mark = 8,  // Mn of Unicode 8, what BERT strips
  mark = 16,            // M, what StripAccents strips
  word = 32,            // \w
  chinese = 64,         // BERT's CJK blocks
  decomposes = 128,     // NFD changes it
  reorders = 256,       // combining class other than 0
  lower = 512,          // lower_case() changes it
};

// The union of CharClass bits of a code point below 0x110000.
uint16_t class_of(char32_t c);
inline bool has(uint16_t classes, CharClass one) { return classes & uint16_t(one); }

// The lower case of c without regard to locale or neighbours. All are one code point but U+0130,
// whose second one, U+0307, is the caller's to add (is_double_lower).
char32_t lower_case(char32_t c);
inline bool is_double_lower(char32_t c) { return c == 0x130; }

// The full decomposition of c as of Unicode 11.0, canonical or compatible; one code point, c
// itself, when there is none. Room for 18 (the longest is U+FDFA).
struct Decomposition {
  char32_t points[18];
  int size = 0;
};
Decomposition decompose(char32_t c, bool compatible);
uint8_t combining_class(char32_t c);
// The primary composite of a and b, if there is one.
std::optional<char32_t> compose(char32_t a, char32_t b);

// --- UTF-8 ---

// The byte at which text stops being well-formed UTF-8 (surrogates and overlong forms are not), or
// nothing.
std::optional<size_t> find_ill_formed(std::string_view text);
// Throws Error(where, "ill-formed UTF-8 at byte …").
void check_utf8(std::string_view text, const std::string& where);

inline bool is_continuation(char byte) { return (uint8_t(byte) & 0xC0) == 0x80; }
// Bytes of the code point that starts with this byte, in well-formed text.
inline int utf8_length(char first) {
  const auto byte = uint8_t(first);
  return byte < 0x80 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
}
// The code point at text[at], which is well-formed; moves `at` behind it.
char32_t next_code_point(std::string_view text, size_t& at);
// The code point that ends before text[at]; moves `at` to its start.
char32_t previous_code_point(std::string_view text, size_t& at);
void append_utf8(std::string& text, char32_t c);
size_t count_code_points(std::string_view text);

}  // namespace yoke
