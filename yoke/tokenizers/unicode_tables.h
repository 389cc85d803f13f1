// The peer's view of Unicode as ranges (made by tests/golden/make_unicode_tables.py); read through
// unicode.h, which explains each property.
#pragma once

#include <cstdint>
#include <span>

namespace yoke::unicode_tables {

struct Range {
  uint32_t first, last;
};

// Every step-th code point of [first, last] has the lower case c + delta.
struct LowerRun {
  uint32_t first, last;
  int32_t step, delta;
};

extern const std::span<const Range> removed, space, punctuation, nonspacing_mark, mark, word,
    chinese, decomposes, reorders;
extern const std::span<const LowerRun> lower;

}  // namespace yoke::unicode_tables
