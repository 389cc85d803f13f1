// Where each trainable parameter and its gradient lie in one flat buffer, and which stretches of it
// (buckets) are reduced together. Offsets depend on the parameters only, never on devices or bucket
// size.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace yoke {

struct FlatSlice {
  size_t parameter = 0;  // index into the list the layout was made from
  int64_t offset = 0;    // in elements; a multiple of 16, so 64-byte aligned for float
  int64_t numel = 0;
  int group = 0;  // parameters that share hyper-parameters
};

struct FlatBucket {
  size_t first_slice = 0;  // slices [first_slice, end_slice), in layout order
  size_t end_slice = 0;
  int64_t begin = 0;  // elements [begin, end)
  int64_t end = 0;
};

struct FlatLayout {
  std::vector<FlatSlice> slices;    // in buffer order: by group, then as registered
  std::vector<FlatBucket> buckets;  // in the order in which backward is expected to fill them
  std::vector<size_t> bucket_of;    // by slice
  int64_t total = 0;                // elements of the buffer

  // One entry a parameter, in registration order: number of elements and group.
  static FlatLayout make(const std::vector<std::pair<int64_t, int>>& parameters,
                         int64_t bucket_elements);
};

}  // namespace yoke
