// The CPU kernel behind packed_attention, one row and head at a time. Private to this folder.
#pragma once

#include <cstdint>

#include "yoke/core/random.h"

namespace yoke {

// Geometry and dropout of one call; rows are cu[r] .. cu[r+1] of T tokens, `stride` floats apart.
struct AttentionShape {
  int64_t heads = 0;
  int64_t head_size = 0;
  int64_t stride = 0;  // heads * head_size
  float scale = 1;
  PhiloxKey key;
  uint32_t threshold = 0;  // 0: no dropout
  float keep_scale = 1;
  uint32_t step = 0;
};

struct AttentionForward {
  const float *q, *k, *v;
  float* out;
  float* lse;  // (T, heads): log of the sum of exponentials
};

struct AttentionBackward {
  const float *q, *k, *v, *out, *grad_out, *lse;
  float *grad_q, *grad_k, *grad_v;
};

// Tokens [begin, end) are one row with this slot.
void attend(const AttentionShape& shape, const AttentionForward& tensors, int64_t begin,
            int64_t end, uint32_t slot, int64_t head);
void attend_backward(const AttentionShape& shape, const AttentionBackward& tensors, int64_t begin,
                     int64_t end, uint32_t slot, int64_t head);

}  // namespace yoke
