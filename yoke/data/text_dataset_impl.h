// What datasets of texts and of words share: finding columns, refusing rows, encoding in parallel.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

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

// "Class Index " -> "class_index".
std::string plain_column_name(std::string_view name);
// The column that an option names: by name, else without regard to case, else by number. Throws
// Error("data.read") that lists the columns.
size_t given_column(const Table& table, const std::string& name, const std::string& option);
// The option in both spellings: .data.text_column = "x" (--text-column x).
std::string spell_option(const std::string& option, const std::string& value);

// Rows that cannot be used: the first is an error, or with skip_bad_rows all stand on a list. What
// the table could not read comes in at its place.
class Refusals {
 public:
  Refusals(const Table& table, bool skip) : table_(table), skip_(skip) {}

  void add(int64_t row, int64_t line, const std::string& what, const std::string& hint = "");
  // The bad rows of the table before this row.
  void add_bad_rows_before(int64_t source_row);
  void add_bad_rows();  // all that are left
  // Logs the list and hands it over.
  std::vector<std::string> report();

 private:
  const Table& table_;
  const bool skip_;
  size_t next_bad_ = 0;
  std::vector<std::string> skipped_;
};

// Calls encode(row) for all rows, in parallel (threads: 0 for PyTorch's). Of errors the first row's
// is thrown, with describe(row) before it.
void encode_rows(int64_t rows, int threads, const std::function<void(int64_t)>& encode,
                 const std::function<std::string(int64_t)>& describe);

}  // namespace yoke
