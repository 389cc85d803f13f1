// JSON lines, or one array of objects, through nlohmann-json's SAX parser. Not through Arrow's JSON
// reader, which guesses a type for a whole column: texts that look like dates come back rewritten,
// a column of 1 and "1" is an error, and its row numbers start anew in every block.
#include <algorithm>
#include <string>
#include <unordered_map>

#include "yoke/core/error.h"
#include "yoke/core/json.h"
#include "yoke/data/table_impl.h"

namespace yoke::table {
namespace {

constexpr size_t max_depth = 256;

// Cells of the rows so far; a key that appears later has nothing in earlier rows.
class Columns {
 public:
  Columns(Table::Data& data, Arena& arena) : data_(data), arena_(arena) {}

  void set(const std::string& key, CellKind kind, std::string_view text, bool is_null) {
    const auto [at, is_new] = index_.try_emplace(key, data_.columns.size());
    const size_t column = at->second;
    if (is_new) {
      data_.columns.push_back({key, kind});
      data_.cells.emplace_back();
      typed_.push_back(false);
    }
    auto& cells = data_.cells[column];
    cells.resize(rows_ + 1);
    if (is_null) {
      cells[rows_] = {};
      return;
    }
    cells[rows_] = arena_.add(text);
    CellKind& known = data_.columns[column].kind;
    if (!typed_[column]) {
      known = kind;
    } else if (known != kind) {
      const bool numbers =
          std::max(known, kind) == CellKind::real && std::min(known, kind) == CellKind::integer;
      known = numbers
                  ? CellKind::real
                  : (std::max(known, kind) == CellKind::list ? CellKind::list : CellKind::string);
    }
    typed_[column] = true;
  }
  void end_row(int64_t row, int64_t line) {
    data_.source_rows.push_back(row);
    data_.lines.push_back(line);
    ++rows_;
    fill();
  }
  // Forgets what a row that turned out to be bad has set.
  void drop_row() {
    for (auto& cells : data_.cells) cells.resize(rows_);
  }
  void fill() {
    for (auto& cells : data_.cells) cells.resize(rows_);
  }

 private:
  Table::Data& data_;
  Arena& arena_;
  std::unordered_map<std::string, size_t> index_;
  std::vector<bool> typed_;
  size_t rows_ = 0;
};

// Objects `row_depth` levels below the top are rows: 0 for a line, 1 inside an array.
class RowHandler : public nlohmann::json_sax<Json> {
 public:
  RowHandler(Columns& columns, size_t row_depth, NestedCells nested)
      : columns_(columns), row_depth_(row_depth), keeps_nested_(nested == NestedCells::json) {}

  std::string fault;       // why parsing stopped
  size_t fault_byte = 0;   // from 1; 0 when the parser did not say
  int64_t array_rows = 0;  // rows ended inside an array
  void restart() {
    depth_ = 0;
    fault.clear();
    fault_byte = 0;
  }

  bool null() override { return value(CellKind::string, {}, true); }
  bool boolean(bool v) override { return value(CellKind::boolean, v ? "true" : "false"); }
  bool number_integer(number_integer_t v) override {
    return value(CellKind::integer, std::to_string(v));
  }
  bool number_unsigned(number_unsigned_t v) override {
    return value(CellKind::integer, std::to_string(v));
  }
  bool number_float(number_float_t, const string_t& text) override {
    return value(CellKind::real, text);
  }
  bool string(string_t& v) override { return value(CellKind::string, v); }
  bool binary(binary_t&) override { return false; }
  bool key(string_t& v) override {
    if (depth_ == row_depth_ + 1) {
      key_ = v;
    } else if (keeps_nested_) {
      append_json_comma(nested_);
      append_json_string(nested_, v);
      nested_ += ':';
    }
    return true;
  }
  bool start_object(size_t) override {
    return depth_ == row_depth_ ? enter() : open('{', object_cell);
  }
  bool end_object() override {
    close('}');
    if (depth_ == row_depth_ && row_depth_ == 1) columns_.end_row(++array_rows, 0);
    return true;
  }
  bool start_array(size_t) override {
    return depth_ == 0 && row_depth_ == 1 ? enter() : open('[', list_cell);
  }
  bool end_array() override {
    close(']');
    return true;
  }
  bool parse_error(size_t byte, const std::string&, const Json::exception& error) override {
    // "[json.exception.parse_error.101] parse error at line 1, column 9: syntax error while …":
    // without the number and the place, which is one of this piece of text only.
    fault = error.what();
    if (const size_t end = fault.find("] "); end != std::string::npos) fault.erase(0, end + 2);
    if (fault.starts_with("parse error at"))
      if (const size_t end = fault.find(": "); end != std::string::npos) fault.erase(0, end + 2);
    fault_byte = byte;
    return false;
  }

 private:
  bool enter() {
    if (++depth_ > max_depth) {
      fault = "nested deeper than " + std::to_string(max_depth) + " levels";
      return false;
    }
    return true;
  }
  bool open(char bracket, std::string_view marker) {
    if (!keeps_nested_ || depth_ <= row_depth_) return value(CellKind::list, marker) && enter();
    if (depth_ == row_depth_ + 1) nested_.clear();
    append_json_comma(nested_);
    nested_ += bracket;
    return enter();
  }
  void close(char bracket) {
    --depth_;
    if (!keeps_nested_ || depth_ <= row_depth_) return;
    nested_ += bracket;
    if (depth_ == row_depth_ + 1) columns_.set(key_, CellKind::list, nested_, false);
  }
  bool value(CellKind kind, std::string_view text, bool is_null = false) {
    if (depth_ <= row_depth_) {
      fault = "is not an object";
      return false;
    }
    if (depth_ == row_depth_ + 1) {
      columns_.set(key_, kind, text, is_null);
    } else if (keeps_nested_) {
      append_json_comma(nested_);
      if (kind == CellKind::string && !is_null)
        append_json_string(nested_, text);
      else
        nested_ += is_null ? "null" : text;
    }
    return true;
  }

  Columns& columns_;
  const size_t row_depth_;
  const bool keeps_nested_;
  size_t depth_ = 0;
  std::string key_;
  std::string nested_;  // the JSON so far of the nested cell that parsing is in
};

bool is_blank(std::string_view line) {
  return line.find_first_not_of(" \t\r") == std::string_view::npos;
}

int64_t line_of(std::string_view text, size_t offset) {
  return 1 +
         std::count(text.begin(), text.begin() + ptrdiff_t(std::min(offset, text.size())), '\n');
}

}  // namespace

void append_json_comma(std::string& json) {
  // A string ends with its quote, so these are brackets and colons of the text's structure.
  if (!json.empty() && json.back() != '[' && json.back() != '{' && json.back() != ':') json += ',';
}

void append_json_string(std::string& json, std::string_view text) {
  json += '"';
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      (json += '\\') += c;
    } else if (uint8_t(c) < 0x20) {
      constexpr char digits[] = "0123456789abcdef";
      ((json += "\\u00") += digits[uint8_t(c) >> 4]) += digits[uint8_t(c) & 15];
    } else {
      json += c;
    }
  }
  json += '"';
}

void read_json_rows(Source source, NestedCells nested, Table::Data& data) {
  const std::string_view text = source.decoded.text;
  const bool lenient = source.options.skip_bad_rows;
  data.has_header = true;
  const size_t first = std::min(text.find_first_not_of(" \t\r\n"), text.size());
  const bool array = first < text.size() && text[first] == '[';
  if (!source.decoded.bad.empty() && (!lenient || array)) {
    const size_t end = source.decoded.bad[0].offset;
    int64_t row = 1;
    for (size_t i = 0; i < end && !array;) {
      const size_t stop = text.find('\n', i);
      if (stop == std::string_view::npos || stop >= end) break;
      row += !is_blank(text.substr(i, stop - i));
      i = stop + 1;
    }
    if (!array) fail_bad_bytes(source, source.decoded.bad[0], {row, line_of(text, end)});
    throw Error("data.read",
                source.path + ": line " + std::to_string(line_of(text, end)) + ": the bytes " +
                    source.decoded.bad[0].bytes + " are not " + source.options.encoding,
                encoding_hint(source.options.encoding, ""));
  }

  auto arena = std::make_shared<Arena>();
  Columns columns(data, *arena);
  data.storage = {arena};
  if (array) {
    RowHandler handler(columns, 1, nested);
    if (!Json::sax_parse(text.begin(), text.end(), &handler)) {
      const std::string line =
          handler.fault_byte
              ? "line " + std::to_string(line_of(text, handler.fault_byte - 1)) + ": "
              : "";
      throw Error("data.read",
                  source.path + ": row " + std::to_string(handler.array_rows + 1) + ": " + line +
                      handler.fault,
                  "an array of objects, or an object a line");
    }
    return;
  }

  RowHandler handler(columns, 0, nested);
  size_t next_bad = 0;
  int64_t row = 0, line_number = 0;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = text.substr(begin, end - begin);
    begin = end + 1;
    ++line_number;
    const BadBytes* bad = nullptr;
    for (; next_bad < source.decoded.bad.size() && source.decoded.bad[next_bad].offset < end;
         ++next_bad)
      bad = &source.decoded.bad[next_bad];
    if (is_blank(line)) continue;
    ++row;
    handler.restart();
    if (bad) {
      data.bad_rows.push_back({row, line_number,
                               "the bytes " + bad->bytes + " are not " + source.options.encoding,
                               encoding_hint(source.options.encoding, "")});
    } else if (Json::sax_parse(line.begin(), line.end(), &handler)) {
      columns.end_row(row, line_number);
    } else {
      columns.drop_row();
      const std::string what =
          handler.fault == "is not an object" ? handler.fault : "is not JSON: " + handler.fault;
      data.bad_rows.push_back({row, line_number, what, "one object a line"});
    }
  }
}

}  // namespace yoke::table
