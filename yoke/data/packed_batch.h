// A micro-batch without padding: the rows stand one after another. T tokens, B rows.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

namespace yoke {

struct PackedBatch {
  at::Tensor input_ids;       // (T) int64
  at::Tensor position_ids;    // (T) int64, from 0 at each row's start
  at::Tensor token_type_ids;  // (T) int64; undefined when all are 0
  at::Tensor row_ids;         // (T) int64, which row of this micro-batch
  at::Tensor slot_ids;        // (T) int64, the row's slot in the global batch (keys dropout)
  at::Tensor first_tokens;    // (B) int64, where each row starts
  // (B) int64 or float32, or (T) int64 where tokens are the targets, with ignored_label for those
  // that are none; undefined without labels.
  at::Tensor labels;
  std::vector<int64_t> cu_seqlens;  // (B+1) on the host: row r is tokens [cu[r], cu[r+1])

  int64_t tokens() const { return input_ids.size(0); }
  int64_t rows() const { return first_tokens.size(0); }
  PackedBatch to(c10::Device device) const;
};

// Packs rows given as id lists. `types` is empty, or has one list a row. `slots` has one entry a
// row.
PackedBatch pack(const std::vector<std::span<const int32_t>>& ids,
                 const std::vector<std::span<const int32_t>>& types,
                 const std::vector<int64_t>& slots);

// Packs a padded batch: input_ids and attention_mask are (B, L), mask 0 or 1 with the ones at any
// place; token_type_ids (B, L) may be undefined. Rows keep their order; slots are 0..B-1.
PackedBatch pack_padded(const at::Tensor& input_ids, const at::Tensor& attention_mask,
                        const at::Tensor& token_type_ids);

}  // namespace yoke
