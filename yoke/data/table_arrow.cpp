// What Apache Arrow does for tables: cutting delimited text, and Parquet. No other file of yoke
// includes Arrow.
#include <arrow/api.h>
#include <arrow/csv/api.h>
#include <arrow/io/api.h>
#include <parquet/arrow/reader.h>
#include <parquet/arrow/schema.h>
#include <parquet/properties.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "yoke/core/error.h"
#include "yoke/data/table_impl.h"

namespace yoke::table {
namespace {

[[noreturn]] void fail(const std::string& file, const arrow::Status& status,
                       const std::string& hint = "") {
  throw Error("data.read", file + ": " + status.message(), hint);
}

template <class T>
T get(arrow::Result<T> result, const std::string& file, const std::string& hint = "") {
  if (!result.ok()) fail(file, result.status(), hint);
  return std::move(result).ValueUnsafe();
}

using Cells = std::vector<std::string_view>;

// Views into an array of strings of any width; null for nothing.
template <class Array>
void append_strings(const Array& array, Cells& cells) {
  for (int64_t i = 0; i < array.length(); ++i) {
    if (array.IsNull(i)) {
      cells.emplace_back();
    } else {
      const std::string_view view = array.GetView(i);
      cells.push_back(view.empty() ? empty_cell : view);
    }
  }
}

// The shortest digits that read back as the same number.
template <class Array>
void append_numbers(const Array& array, Cells& cells, Arena& arena) {
  char digits[64];
  for (int64_t i = 0; i < array.length(); ++i) {
    if (array.IsNull(i)) {
      cells.emplace_back();
      continue;
    }
    const auto value = array.Value(i);
    if constexpr (std::is_floating_point_v<decltype(value)>) {
      if (std::isnan(value)) {  // how pandas writes a missing number
        cells.emplace_back();
        continue;
      }
    }
    const char* end = std::to_chars(digits, digits + sizeof digits, value).ptr;
    cells.push_back(arena.add({digits, size_t(end - digits)}));
  }
}

void append_cells(const arrow::Array& array, Cells& cells, Arena& arena, const std::string& file) {
  using arrow::Type;
  switch (array.type_id()) {
    case Type::STRING:
    case Type::BINARY:
      return append_strings(static_cast<const arrow::BinaryArray&>(array), cells);
    case Type::LARGE_STRING:
    case Type::LARGE_BINARY:
      return append_strings(static_cast<const arrow::LargeBinaryArray&>(array), cells);
    case Type::STRING_VIEW:
    case Type::BINARY_VIEW:
      return append_strings(static_cast<const arrow::BinaryViewArray&>(array), cells);
    case Type::INT8:
      return append_numbers(static_cast<const arrow::Int8Array&>(array), cells, arena);
    case Type::INT16:
      return append_numbers(static_cast<const arrow::Int16Array&>(array), cells, arena);
    case Type::INT32:
      return append_numbers(static_cast<const arrow::Int32Array&>(array), cells, arena);
    case Type::INT64:
      return append_numbers(static_cast<const arrow::Int64Array&>(array), cells, arena);
    case Type::UINT8:
      return append_numbers(static_cast<const arrow::UInt8Array&>(array), cells, arena);
    case Type::UINT16:
      return append_numbers(static_cast<const arrow::UInt16Array&>(array), cells, arena);
    case Type::UINT32:
      return append_numbers(static_cast<const arrow::UInt32Array&>(array), cells, arena);
    case Type::UINT64:
      return append_numbers(static_cast<const arrow::UInt64Array&>(array), cells, arena);
    case Type::FLOAT:
      return append_numbers(static_cast<const arrow::FloatArray&>(array), cells, arena);
    case Type::DOUBLE:
      return append_numbers(static_cast<const arrow::DoubleArray&>(array), cells, arena);
    case Type::DICTIONARY: {  // a pandas category
      const auto& dictionary = static_cast<const arrow::DictionaryArray&>(array);
      Cells values;
      append_cells(*dictionary.dictionary(), values, arena, file);
      for (int64_t i = 0; i < array.length(); ++i)
        cells.push_back(array.IsNull(i) ? std::string_view()
                                        : values[size_t(dictionary.GetValueIndex(i))]);
      return;
    }
    default:  // booleans, dates, decimals: as Arrow writes them
      for (int64_t i = 0; i < array.length(); ++i) {
        const auto scalar = get(array.GetScalar(i), file);
        cells.push_back(scalar->is_valid ? arena.add(scalar->ToString()) : std::string_view());
      }
  }
}

CellKind kind_of(const arrow::DataType& type) {
  if (type.id() == arrow::Type::DICTIONARY)
    return kind_of(*static_cast<const arrow::DictionaryType&>(type).value_type());
  if (arrow::is_nested(type.id())) return CellKind::list;
  if (arrow::is_integer(type.id())) return CellKind::integer;
  if (arrow::is_floating(type.id()) || arrow::is_decimal(type.id())) return CellKind::real;
  return type.id() == arrow::Type::BOOL ? CellKind::boolean : CellKind::string;
}

// Lists of plain values as JSON text.
template <class ListArray>
void append_lists(const ListArray& array, Cells& cells, Arena& arena, const std::string& file) {
  Cells values;
  append_cells(*array.values(), values, arena, file);
  const CellKind kind = kind_of(*array.values()->type());
  std::string json;
  for (int64_t i = 0; i < array.length(); ++i) {
    if (array.IsNull(i)) {
      cells.emplace_back();
      continue;
    }
    json = "[";
    for (int64_t v = array.value_offset(i); v < array.value_offset(i + 1); ++v) {
      const std::string_view value = values[size_t(v)];
      append_json_comma(json);
      if (!value.data())
        json += "null";
      else if (kind == CellKind::string)
        append_json_string(json, value);
      else
        json += value;
    }
    cells.push_back(arena.add(json += ']'));
  }
}

bool is_plain_list(const parquet::arrow::SchemaField& field) {
  const auto type = field.field->type()->id();
  return (type == arrow::Type::LIST || type == arrow::Type::LARGE_LIST) &&
         field.children.size() == 1 && field.children[0].is_leaf();
}

std::shared_ptr<arrow::Table> read_columns(parquet::arrow::FileReader& reader,
                                           const std::vector<int>& leaves, bool lists,
                                           const std::string& path, const std::string& hint) {
  if (!lists || reader.num_row_groups() == 0) return get(reader.ReadTable(leaves), path, hint);
  // Arrow cannot make lists of what would become several chunks, as dictionaries do.
  std::vector<std::shared_ptr<arrow::Table>> groups;
  for (int i = 0; i < reader.num_row_groups(); ++i)
    groups.push_back(get(reader.ReadRowGroup(i, leaves), path, hint));
  return get(arrow::ConcatenateTables(groups), path, hint);
}

}  // namespace

ArrowCells cut_delimited(const std::string& file, std::string_view text, char delimiter,
                         bool quoting, size_t columns, size_t longest_record) {
  ArrowCells result;
  auto read = arrow::csv::ReadOptions::Defaults();
  read.use_threads = false;  // else Arrow does not know the number of a bad row
  read.autogenerate_column_names = true;
  // A record must fit into a block and a half.
  constexpr size_t usual = size_t{1} << 20;
  const size_t block = std::max(usual, longest_record + 2);
  if (block > size_t(std::numeric_limits<int32_t>::max()))
    throw Error("data.read", file + ": a record is longer than 2 GiB");
  read.block_size = int32_t(block);
  auto parse = arrow::csv::ParseOptions::Defaults();
  parse.delimiter = delimiter;
  parse.quoting = quoting;
  parse.double_quote = true;
  parse.newlines_in_values = quoting;
  parse.ignore_empty_lines = false;
  parse.invalid_row_handler = [&](const arrow::csv::InvalidRow& row) {
    result.bad.emplace_back(size_t(row.number - 1), size_t(row.actual_columns));
    return arrow::csv::InvalidRowResult::Skip;
  };
  auto convert = arrow::csv::ConvertOptions::Defaults();
  convert.check_utf8 = false;  // checked while it was decoded
  convert.strings_can_be_null = false;
  for (size_t i = 0; i < columns; ++i)
    convert.column_types["f" + std::to_string(i)] = arrow::binary();

  // The cells must not view `text`; Arrow copies them.
  const auto input = std::make_shared<arrow::io::BufferReader>(std::make_shared<arrow::Buffer>(
      reinterpret_cast<const uint8_t*>(text.data()), int64_t(text.size())));
  const auto reader = get(
      arrow::csv::TableReader::Make(arrow::io::default_io_context(), input, read, parse, convert),
      file);
  const std::shared_ptr<arrow::Table> table = get(reader->Read(), file);
  Arena unused;
  result.cells.resize(columns);
  for (size_t c = 0; c < columns; ++c) {
    result.cells[c].reserve(size_t(table->num_rows()));
    for (const auto& chunk : table->column(int(c))->chunks())
      append_cells(*chunk, result.cells[c], unused, file);
  }
  result.storage = table;
  return result;
}

void read_parquet(const std::string& path, NestedCells nested_cells, Table::Data& data) {
  const std::string hint = "a whole Parquet file: this one may be cut off or of another format";
  try {
    const auto input = get(arrow::io::ReadableFile::Open(path), path);
    if (get(input->GetSize(), path) == 0)
      throw Error("data.read", path + " is empty", "a file with a header and rows");
    const auto reader =
        get(parquet::arrow::OpenFile(input, arrow::default_memory_pool()), path, hint);
    std::shared_ptr<arrow::Schema> schema;
    if (const auto status = reader->GetSchema(&schema); !status.ok()) fail(path, status, hint);

    // Nested columns (embeddings, images) are not read at all, unless lists are asked for.
    std::vector<int> leaves;
    std::vector<int> place;  // of a column among those read
    const auto& fields = reader->manifest().schema_fields;
    for (int i = 0; i < schema->num_fields(); ++i) {
      const auto& field = *schema->field(i);
      const bool nested = !fields[size_t(i)].is_leaf();
      data.columns.push_back({field.name(), nested ? CellKind::list : kind_of(*field.type())});
      const bool list = nested_cells == NestedCells::json && is_plain_list(fields[size_t(i)]);
      place.push_back(nested && !list ? -1 : int(leaves.size()));
      if (list) leaves.push_back(fields[size_t(i)].children[0].column_index);
      if (!nested) leaves.push_back(fields[size_t(i)].column_index);
    }
    const auto table = read_columns(*reader, leaves, nested_cells == NestedCells::json, path, hint);
    const int64_t rows = reader->parquet_reader()->metadata()->num_rows();
    auto arena = std::make_shared<Arena>();
    data.cells.resize(data.columns.size());
    for (size_t c = 0; c < data.columns.size(); ++c) {
      auto& cells = data.cells[c];
      if (place[c] < 0) {
        cells.assign(size_t(rows), list_cell);
        continue;
      }
      cells.reserve(size_t(rows));
      for (const auto& chunk : table->column(place[c])->chunks()) {
        if (chunk->type_id() == arrow::Type::LIST)
          append_lists(static_cast<const arrow::ListArray&>(*chunk), cells, *arena, path);
        else if (chunk->type_id() == arrow::Type::LARGE_LIST)
          append_lists(static_cast<const arrow::LargeListArray&>(*chunk), cells, *arena, path);
        else
          append_cells(*chunk, cells, *arena, path);
      }
    }
    for (int64_t i = 0; i < rows; ++i) data.source_rows.push_back(i + 1);
    data.lines.assign(size_t(rows), 0);
    data.storage = {table, arena};
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {  // Parquet's own reader throws
    throw Error("data.read", path + ": " + error.what(), hint);
  }
}

}  // namespace yoke::table
