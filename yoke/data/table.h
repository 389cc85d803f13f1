// A file as a table of text cells: CSV, TSV, JSON lines, Parquet.
//
//   Table table = read_table("train.csv");
//   table.columns()[0].name;                    // "text"
//   table.cell(0, 0);                           // "a gripping film", or nothing
//
// Every cell is read as text, whatever its type: numbers keep their digits, empty is empty, and
// only JSON and Parquet know "nothing". A row whose shape is wrong is not in the table but in
// bad_rows(): the caller decides. Tables are immutable; copies share one state and are cheap; safe
// from many threads.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "yoke/data/text_options.h"

namespace yoke {

// What a column's cells are in the file. In CSV and TSV all are strings. `list` stands for every
// nested type; such a cell reads as "[…]" or "{…}", or as JSON where that was asked for.
enum class CellKind { string, integer, real, boolean, list };

// How nested cells are read: marked as such (the cheap way), or as JSON ("[\"a\", 1, null]", of
// Parquet only lists of plain values).
enum class NestedCells { marked, json };

struct TableColumn {
  std::string name;  // "0", "1", … without a header
  CellKind kind = CellKind::string;
};

// A row that could not be read as one: too few or too many fields, bytes that are no text, no JSON.
struct BadRow {
  int64_t row = 0;   // as Table::source_row
  int64_t line = 0;  // as Table::line
  std::string what;  // "has 1 field, the header has 2"
  std::string hint;
};

class Table {
 public:
  struct Data;  // private to yoke/data/
  explicit Table(std::shared_ptr<const Data> data) : data_(std::move(data)) {}

  const std::string& file() const;
  bool has_header() const;
  const std::vector<TableColumn>& columns() const;
  int64_t rows() const;

  // Views live as long as the table or a copy of it.
  std::optional<std::string_view> cell(int64_t row, size_t column) const;

  // The number of the row in the file, from 1; bad rows count, the header and blank lines do not.
  int64_t source_row(int64_t row) const;
  // The line of the file on which it begins, from 1; 0 where a file has no lines.
  int64_t line(int64_t row) const;

  const std::vector<BadRow>& bad_rows() const;  // in order

 private:
  std::shared_ptr<const Data> data_;
};

// The format comes from the name:
//   .csv                  quotes as in RFC 4180; commas, or where the header has none, tabs or ;
//   .tsv .txt             TAB; quotes are characters, every line is a row
//   .label                "label text" lines: the first TAB or else blank separates; no header
//   .jsonl .json .ndjson  an object a line, or one array of objects
//   .parquet
// Blank lines are left out, but for the one column of a TSV, where one is an empty text. Of
// `options`, no_header, encoding and skip_bad_rows count (bytes that are no text are then bad
// rows). Throws Error("data.read") with file, row, line and option.
Table read_table(const std::string& path, const TextOptions& options = {},
                 NestedCells nested = NestedCells::marked);

// "train.csv: row 3 (line 4)"; without the line where it is 0.
std::string describe_row(const std::string& file, int64_t row, int64_t line);

}  // namespace yoke
