// Which columns of a table hold text, text pair and label.
#pragma once

#include <cstddef>
#include <optional>

#include "yoke/data/table.h"
#include "yoke/data/text_dataset.h"

namespace yoke {

struct TextColumns {
  size_t text = 0;
  std::optional<size_t> pair;
  std::optional<size_t> label;
};

// Throws Error("data.read") that shows header and first row and says what to give.
TextColumns find_text_columns(const Table& table, const TextOptions& options, LabelNeed need);

}  // namespace yoke
