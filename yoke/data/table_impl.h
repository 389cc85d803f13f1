// Shared by the readers of tables: the state of a Table and what each reader makes it from.
#pragma once

#include <algorithm>
#include <cstddef>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "yoke/data/encoding.h"
#include "yoke/data/table.h"

namespace yoke {

struct Table::Data {
  std::string file;
  bool has_header = true;
  std::vector<TableColumn> columns;
  std::vector<std::vector<std::string_view>> cells;  // [column][row]; data() is null for nothing
  std::vector<int64_t> source_rows;
  std::vector<int64_t> lines;
  std::vector<BadRow> bad_rows;
  std::vector<std::shared_ptr<const void>> storage;  // keeps what the cells view
};

namespace table {

inline constexpr std::string_view empty_cell{"", 0};
inline constexpr std::string_view list_cell = "[…]";
inline constexpr std::string_view object_cell = "{…}";

// Text with addresses that stay.
class Arena {
 public:
  std::string_view add(std::string_view text) {
    if (text.empty()) return empty_cell;
    if (blocks_.empty() || blocks_.back().size() + text.size() > blocks_.back().capacity()) {
      blocks_.emplace_back();
      blocks_.back().reserve(std::max(text.size(), size_t{1} << 16));
    }
    std::string& block = blocks_.back();
    block += text;
    return std::string_view(block).substr(block.size() - text.size());
  }

 private:
  std::deque<std::string> blocks_;
};

// A text file before it is cut into cells.
struct Source {
  std::string path;
  DecodedText decoded;
  const TextOptions& options;
};

// Where records begin in delimited text, found without making cells: line numbers, blank records,
// bad bytes' records, quotes that never close. The same rules as Arrow's CSV reader: a quote opens
// a field only at its beginning; CR, LF and CRLF end a record.
struct Records {
  std::vector<size_t> begin;
  std::vector<int64_t> line;
  std::vector<bool> blank;
  size_t longest = 0;                     // bytes
  int64_t open_quote_line = 0;            // of a quote that never closes
  size_t of_offset(size_t offset) const;  // index of the record that holds a byte
};
Records scan_records(std::string_view text, char delimiter, bool quoting);

// Fields of the first record of `text`.
size_t count_fields(std::string_view text, char delimiter, bool quoting);

// One reader a format. They fill what they are given; read_table adds file name and checks.
void read_delimited(Source source, char delimiter, bool quoting, Table::Data& data);
void read_label_lines(Source source, Table::Data& data);
void read_json_rows(Source source, NestedCells nested, Table::Data& data);
void read_parquet(const std::string& path, NestedCells nested, Table::Data& data);

// Appends a value to a list or object in JSON text, with its comma. Strings keep their bytes.
void append_json_comma(std::string& json);
void append_json_string(std::string& json, std::string_view text);

struct Place {
  int64_t row = 0;  // 0 for the header
  int64_t line = 0;
};
// The error for bytes that are no text.
[[noreturn]] void fail_bad_bytes(const Source& source, const BadBytes& bad, Place place);

// Delimited text cut by Arrow. `text` begins with the record that decides the number of columns;
// records of another width are `bad`, the others' cells stand in `cells`.
struct ArrowCells {
  std::vector<std::vector<std::string_view>> cells;  // [column][record]
  std::vector<std::pair<size_t, size_t>> bad;        // record, fields
  std::shared_ptr<const void> storage;
};
ArrowCells cut_delimited(const std::string& file, std::string_view text, char delimiter,
                         bool quoting, size_t columns, size_t longest_record);

}  // namespace table
}  // namespace yoke
