#include "yoke/data/text_dataset.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "yoke/core/error.h"
#include "yoke/core/log.h"
#include "yoke/core/suggest.h"
#include "yoke/data/encoding.h"
#include "yoke/data/table.h"
#include "yoke/data/text_dataset_impl.h"

namespace yoke {
namespace {

std::string_view trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t\r\n");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t\r\n") + 1 - begin);
}

}  // namespace

void Refusals::add(int64_t row, int64_t line, const std::string& what, const std::string& hint) {
  const std::string option = ".data.skip_bad_rows = true (--skip-bad-rows) to leave such rows out";
  if (!skip_)
    throw Error("data.read", describe_row(table_.file(), row, line) + " " + what,
                hint.empty() ? option : hint + "; or " + option);
  skipped_.push_back(describe_row("", row, line).substr(2) + " " + what);
}

void Refusals::add_bad_rows_before(int64_t source_row) {
  const auto& bad = table_.bad_rows();
  for (; next_bad_ < bad.size() && bad[next_bad_].row < source_row; ++next_bad_)
    add(bad[next_bad_].row, bad[next_bad_].line, bad[next_bad_].what, bad[next_bad_].hint);
}

void Refusals::add_bad_rows() { add_bad_rows_before(std::numeric_limits<int64_t>::max()); }

std::vector<std::string> Refusals::report() {
  if (!skipped_.empty())
    log_warning(table_.file() + ": left out " + std::to_string(skipped_.size()) +
                (skipped_.size() == 1 ? " row: " : " rows: ") + join_names(skipped_, 10));
  return std::move(skipped_);
}

std::string TextDataset::describe(int64_t row) const {
  const auto at = size_t(row);
  return describe_row(file, at < source_rows.size() ? source_rows[at] : row + 1,
                      at < lines.size() ? lines[at] : 0);
}

TextDataset load_text_dataset(const std::string& path, const TextOptions& options, LabelNeed need,
                              int64_t max_rows) {
  const Table table = read_table(path, options);
  Refusals refusals(table, options.skip_bad_rows);
  if (table.rows() == 0) {
    refusals.add_bad_rows();
    refusals.report();
    throw Error("data.read", path + ": every row is bad", "another file, or another --encoding");
  }

  const TextColumns columns = find_text_columns(table, options, need);
  TextDataset data;
  data.file = path;
  const auto name_of = [&](size_t column) { return table.columns()[column].name; };
  data.text_column = name_of(columns.text);
  if (columns.pair) data.text_pair_column = name_of(*columns.pair);
  if (columns.label) data.label_column = name_of(*columns.label);

  const auto full = [&] { return max_rows > 0 && data.rows() >= max_rows; };
  for (int64_t row = 0; row < table.rows() && !full(); ++row) {
    const int64_t source = table.source_row(row);
    refusals.add_bad_rows_before(source);
    const auto refuse = [&](const std::string& what) {
      refusals.add(source, table.line(row), what);
    };
    const auto missing = [&](size_t column) { refuse("has no \"" + name_of(column) + "\""); };
    const auto text = table.cell(row, columns.text);
    const auto pair = columns.pair ? table.cell(row, *columns.pair) : std::nullopt;
    const auto label = columns.label ? table.cell(row, *columns.label) : std::nullopt;
    if (!text) {
      missing(columns.text);
    } else if (columns.pair && !pair) {
      missing(*columns.pair);
    } else if (columns.label && (!label || trimmed(*label).empty())) {
      missing(*columns.label);
    } else if (table.line(row) == 0 && (find_bad_utf8(*text) != std::string_view::npos ||
                                        (pair && find_bad_utf8(*pair) != std::string_view::npos))) {
      refuse("holds bytes that are not utf-8");  // Parquet does not check its texts
    } else {
      data.texts.emplace_back(*text);
      if (pair) data.pairs.emplace_back(*pair);
      if (label) data.labels.emplace_back(trimmed(*label));
      data.source_rows.push_back(source);
      data.lines.push_back(table.line(row));
    }
  }
  if (!full()) refusals.add_bad_rows();
  data.skipped = refusals.report();
  if (data.rows() == 0)
    throw Error("data.read", path + ": every row is bad", "another file, or other columns");
  return data;
}

}  // namespace yoke
