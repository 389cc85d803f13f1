// Multi-head self-attention over packed rows: every row attends to itself only, nothing is padded.
// Dropout of the probabilities by counter: key (seed, layer), counter (step, slot, query position,
// head * 2^20 + key position / 4); word key position % 4. The probabilities are not stored;
// backward computes them again.
//
//   out = packed_attention(q, k, v, batch.cu_seqlens, batch.slot_ids, heads, site);
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "yoke/models/ops/dropout.h"

namespace yoke {

// q, k, v (T, heads * d) float; cu_seqlens (B+1), slot_ids (T). Returns (T, heads * d), softmax(q
// k^T / sqrt(d)) v for each row and head. Differentiable. A kernel of its own on the CPU (and the
// simulated device), tensor operations elsewhere.
at::Tensor packed_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                            const std::vector<int64_t>& cu_seqlens, const at::Tensor& slot_ids,
                            int64_t heads, const DropoutSite& site);

// The same in plain tensor operations on any device: the same dropout mask, sums in another order.
at::Tensor packed_attention_reference(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                      const std::vector<int64_t>& cu_seqlens,
                                      const at::Tensor& slot_ids, int64_t heads,
                                      const DropoutSite& site);

}  // namespace yoke
