#include "yoke/data/packed_batch.h"

#include <ATen/ops/empty.h>

#include "yoke/core/error.h"

namespace yoke {
namespace {

at::Tensor empty_ids(int64_t n) { return at::empty({n}, at::kLong); }

}  // namespace

PackedBatch PackedBatch::to(c10::Device device) const {
  PackedBatch moved = *this;
  for (at::Tensor* tensor : {&moved.input_ids, &moved.position_ids, &moved.token_type_ids,
                             &moved.row_ids, &moved.slot_ids, &moved.first_tokens, &moved.labels})
    if (tensor->defined()) *tensor = tensor->to(device, /*non_blocking=*/true);
  return moved;
}

PackedBatch pack(const std::vector<std::span<const int32_t>>& ids,
                 const std::vector<std::span<const int32_t>>& types,
                 const std::vector<int64_t>& slots) {
  const int64_t rows = int64_t(ids.size());
  if (int64_t(slots.size()) != rows || (!types.empty() && int64_t(types.size()) != rows))
    throw Error("data.pack", "ids, token types and slots differ in their number of rows");
  int64_t total = 0;
  for (const auto& row : ids) total += int64_t(row.size());

  PackedBatch batch;
  batch.input_ids = empty_ids(total);
  batch.position_ids = empty_ids(total);
  batch.row_ids = empty_ids(total);
  batch.slot_ids = empty_ids(total);
  batch.cu_seqlens.resize(size_t(rows) + 1);
  batch.first_tokens = empty_ids(rows);
  if (!types.empty()) batch.token_type_ids = empty_ids(total);
  auto* input = batch.input_ids.data_ptr<int64_t>();
  auto* position = batch.position_ids.data_ptr<int64_t>();
  auto* row_id = batch.row_ids.data_ptr<int64_t>();
  auto* slot_id = batch.slot_ids.data_ptr<int64_t>();
  auto* cu = batch.cu_seqlens.data();
  auto* first = batch.first_tokens.data_ptr<int64_t>();
  auto* type = types.empty() ? nullptr : batch.token_type_ids.data_ptr<int64_t>();
  int64_t at = 0;
  for (int64_t r = 0; r < rows; ++r) {
    const auto& row = ids[size_t(r)];
    if (type && types[size_t(r)].size() != row.size())
      throw Error("data.pack", "row " + std::to_string(r) + " has " + std::to_string(row.size()) +
                                   " ids and " + std::to_string(types[size_t(r)].size()) +
                                   " token types");
    cu[r] = first[r] = at;
    for (size_t i = 0; i < row.size(); ++i, ++at) {
      input[at] = row[i];
      position[at] = int64_t(i);
      row_id[at] = r;
      slot_id[at] = slots[size_t(r)];
      if (type) type[at] = types[size_t(r)][i];
    }
  }
  cu[rows] = at;
  return batch;
}

PackedBatch pack_padded(const at::Tensor& input_ids, const at::Tensor& attention_mask,
                        const at::Tensor& token_type_ids) {
  if (input_ids.dim() != 2) throw Error("data.pack", "input_ids must be (rows, length)");
  for (const auto* other : {&attention_mask, &token_type_ids})
    if (other->defined() && other->sizes() != input_ids.sizes())
      throw Error("data.pack",
                  "attention_mask and token_type_ids must have the shape of input_ids");
  const int64_t rows = input_ids.size(0), length = input_ids.size(1);
  auto host = [](const at::Tensor& t) {
    return t.defined() ? t.to(at::kCPU).to(at::kInt).contiguous() : t;
  };
  const auto ids = host(input_ids), mask = host(attention_mask), types = host(token_type_ids);
  std::vector<std::vector<int32_t>> kept_ids(size_t(rows), std::vector<int32_t>{}),
      kept_types(size_t(rows), std::vector<int32_t>{});
  std::vector<int64_t> slots;
  for (int64_t r = 0; r < rows; ++r) {
    slots.push_back(r);
    for (int64_t i = 0; i < length; ++i) {
      if (mask.defined() && mask.data_ptr<int32_t>()[r * length + i] == 0) continue;
      kept_ids[size_t(r)].push_back(ids.data_ptr<int32_t>()[r * length + i]);
      if (types.defined())
        kept_types[size_t(r)].push_back(types.data_ptr<int32_t>()[r * length + i]);
    }
  }
  std::vector<std::span<const int32_t>> id_spans(kept_ids.begin(), kept_ids.end()), type_spans;
  if (types.defined()) type_spans.assign(kept_types.begin(), kept_types.end());
  return pack(id_spans, type_spans, slots).to(input_ids.device());
}

}  // namespace yoke
