// Philox4x32-10 over many counters at once, written so that compilers vectorise it; for kernels
// marked YOKE_MULTIVERSION.
#pragma once

#include <cstdint>

#include "yoke/core/multiversion.h"
#include "yoke/core/random.h"

namespace yoke {

inline constexpr int philox_lanes = 32;

// On entry words[w][i] is word w of counter i; on return it is word w of that counter's random
// words.
YOKE_INLINE void philox_rounds(uint32_t words[4][philox_lanes], PhiloxKey key) {
  uint32_t* x0 = words[0];
  uint32_t* x1 = words[1];
  uint32_t* x2 = words[2];
  uint32_t* x3 = words[3];
  for (int round = 0; round < 10; ++round) {
    for (int i = 0; i < philox_lanes; ++i) {
      const uint64_t p0 = uint64_t{philox_m0} * x0[i];
      const uint64_t p1 = uint64_t{philox_m1} * x2[i];
      x0[i] = uint32_t(p1 >> 32) ^ x1[i] ^ key.k0;
      x1[i] = uint32_t(p1);
      x2[i] = uint32_t(p0 >> 32) ^ x3[i] ^ key.k1;
      x3[i] = uint32_t(p0);
    }
    key.k0 += philox_w0;
    key.k1 += philox_w1;
  }
}

// Counters (c0, c1, c2, first + i) for i in [0, philox_lanes).
YOKE_INLINE void philox_block(uint32_t c0, uint32_t c1, uint32_t c2, uint32_t first, PhiloxKey key,
                              uint32_t words[4][philox_lanes]) {
  for (int i = 0; i < philox_lanes; ++i) {
    words[0][i] = c0;
    words[1][i] = c1;
    words[2][i] = c2;
    words[3][i] = first + uint32_t(i);
  }
  philox_rounds(words, key);
}

}  // namespace yoke
