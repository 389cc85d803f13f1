// Dropout that depends on (seed, layer; step, slot, position, channel) only: every row has the same
// mask on any number of devices, and no mask is stored. Philox by counter (yoke/core/random.h): key
// (seed, layer), counter (step, slot of the row in the global batch, position inside the row, block
// of four channels); word c % 4 decides channel c, which is dropped when word < p * 2^32.
//
//   DropoutSite site{.p = 0.1, .seed = 42, .layer = 3, .step = 17};
//   y = row_dropout(x, slot_ids, position_ids, site);
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "yoke/core/random.h"

namespace yoke {

struct DropoutSite {
  double p = 0;  // 0 <= p < 1; 0 does nothing
  uint64_t seed = 0;
  uint64_t layer = 0;  // a number of its own for each dropout of a model
  int64_t step = 0;    // optimiser steps before this one

  PhiloxKey key() const { return philox_key(seed, layer); }
  int64_t key_bits() const { return yoke::key_bits(key()); }  // as operators take it
};

inline uint32_t dropout_threshold(double p) {
  TORCH_CHECK(p >= 0 && p < 1, "dropout probability must be in [0, 1), got ", p);
  return drop_threshold(p);
}

// x (T, C) float, slots and positions (T) int64; returns (T, C): 0 or x / (1 - p). Differentiable.
// A kernel of its own where has_kernel() finds one, else tensor operations; all give the same bits.
at::Tensor row_dropout(const at::Tensor& x, const at::Tensor& slots, const at::Tensor& positions,
                       const DropoutSite& site);

// The same in plain tensor operations on any device.
at::Tensor row_dropout_reference(const at::Tensor& x, const at::Tensor& slots,
                                 const at::Tensor& positions, const DropoutSite& site);

// Philox words in tensor operations: c1, c2, c3 are int64 tensors that broadcast to shape S;
// returns (S, 4) int64 with words in [0, 2^32).
at::Tensor philox_words(int64_t step, const at::Tensor& c1, const at::Tensor& c2,
                        const at::Tensor& c3, PhiloxKey key);

// Whether x's device has a kernel of yoke's own operator `op` ("yoke::row_dropout"): the CPU and,
// by its fallback, the simulated device always; CUDA where libyoke_cuda.so was built with nvcc and
// has one. Elsewhere the reference serves.
bool has_kernel(const char* op, const at::Tensor& x);

}  // namespace yoke
