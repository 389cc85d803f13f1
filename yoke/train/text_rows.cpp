#include "yoke/train/text_rows.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <span>

#include "yoke/core/suggest.h"

namespace yoke {

PackedBatch pack_rows(const TextRows& rows, const MicroBatch& micro) {
  std::vector<std::span<const int32_t>> ids, types;
  for (int64_t row : micro.rows) {
    ids.emplace_back(rows.tokens.input_ids[size_t(row)]);
    if (!rows.tokens.token_type_ids.empty())
      types.emplace_back(rows.tokens.token_type_ids[size_t(row)]);
  }
  PackedBatch batch = pack(ids, types, micro.slots);
  const int64_t n = batch.rows();
  if (!rows.token_labels.empty()) {
    batch.labels = at::empty({batch.tokens()}, at::kLong);
    auto* label = batch.labels.mutable_data_ptr<int64_t>();
    for (int64_t row : micro.rows)
      label = std::copy(rows.token_labels[size_t(row)].begin(),
                        rows.token_labels[size_t(row)].end(), label);
  } else if (!rows.class_labels.empty()) {
    batch.labels = at::empty({n}, at::kLong);
    for (int64_t i = 0; i < n; ++i)
      batch.labels.mutable_data_ptr<int64_t>()[i] =
          rows.class_labels[size_t(micro.rows[size_t(i)])];
  } else if (!rows.values.empty()) {
    batch.labels = at::empty({n}, at::kFloat);
    for (int64_t i = 0; i < n; ++i)
      batch.labels.mutable_data_ptr<float>()[i] = float(rows.values[size_t(micro.rows[size_t(i)])]);
  }
  return batch;
}

std::string describe_rows(const TextRows& rows, const std::vector<int64_t>& which) {
  std::vector<std::string> numbers;
  for (int64_t row : which) numbers.push_back(std::to_string(rows.source_rows[size_t(row)]));
  return (which.size() == 1 ? "row " : "rows ") + join_names(numbers) +
         (rows.file.empty() ? std::string() : " of " + rows.file);
}

}  // namespace yoke
