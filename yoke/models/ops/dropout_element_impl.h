// What row_dropout does to four neighbouring channels of a token, for a kernel that has a thread
// for each four.
#pragma once

#include <cstdint>

#include "yoke/core/random.h"

namespace yoke {

struct DropoutMask {
  PhiloxKey key;
  uint32_t threshold = 0;  // words below it drop
  float scale = 1;         // of what is kept
};

// x and y point at channel 4 * block of a token; `channels` of them are left, of which at most four
// are written.
constexpr void drop_block(const float* x, float* y, int64_t channels, uint32_t step, uint32_t slot,
                          uint32_t position, uint32_t block, const DropoutMask& mask) {
  const auto words = philox({step, slot, position, block}, mask.key);
  for (int w = 0; w < 4 && w < channels; ++w)
    y[w] = words[w] < mask.threshold ? 0.f : x[w] * mask.scale;
}

}  // namespace yoke
