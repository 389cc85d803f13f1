#include "yoke/data/table.h"

#include <algorithm>
#include <filesystem>

#include "yoke/core/error.h"
#include "yoke/core/file.h"
#include "yoke/data/encoding.h"
#include "yoke/data/table_impl.h"

namespace yoke {
namespace {

namespace fs = std::filesystem;

enum class Format { csv, tsv, label, json, parquet };

Format format_of(const std::string& path) {
  std::string extension = fs::path(path).extension().string();
  for (char& c : extension) c = char(c >= 'A' && c <= 'Z' ? c + 32 : c);
  if (extension == ".csv") return Format::csv;
  if (extension == ".tsv" || extension == ".txt") return Format::tsv;
  if (extension == ".label") return Format::label;
  if (extension == ".jsonl" || extension == ".json" || extension == ".ndjson") return Format::json;
  if (extension == ".parquet") return Format::parquet;
  const bool packed = extension == ".gz" || extension == ".zip" || extension == ".bz2" ||
                      extension == ".xz" || extension == ".zst";
  throw Error("data.read",
              path + ": " +
                  (extension.empty() ? "a name without an extension does not tell the format"
                                     : "unknown format \"" + extension + "\""),
              packed ? "unpack it first"
                     : "a name that ends in .csv, .tsv, .txt (TAB), .label, .jsonl, .json, .ndjson "
                       "or .parquet");
}

// Comma, unless the first line has none and is cut by something else that people call CSV.
char csv_delimiter(std::string_view text, bool header) {
  text = text.substr(std::min(text.find_first_not_of("\r\n"), text.size()));
  if (table::count_fields(text, ',', true) > 1) return ',';
  if (table::count_fields(text, '\t', true) > 1) return '\t';
  // Without a header a semicolon may well belong to a text.
  if (header && table::count_fields(text, ';', true) > 1) return ';';
  return ',';
}

void check_readable(const std::string& path) {
  std::error_code code;
  const auto status = fs::status(path, code);
  if (!fs::exists(status)) throw Error("data.read", path + " does not exist", "an existing file");
  if (fs::is_directory(status)) throw Error("data.read", path + " is a folder", "a file inside it");
}

}  // namespace

const std::string& Table::file() const { return data_->file; }
bool Table::has_header() const { return data_->has_header; }
const std::vector<TableColumn>& Table::columns() const { return data_->columns; }
int64_t Table::rows() const { return int64_t(data_->source_rows.size()); }
int64_t Table::source_row(int64_t row) const { return data_->source_rows[size_t(row)]; }
int64_t Table::line(int64_t row) const { return data_->lines[size_t(row)]; }
const std::vector<BadRow>& Table::bad_rows() const { return data_->bad_rows; }

std::optional<std::string_view> Table::cell(int64_t row, size_t column) const {
  const std::string_view view = data_->cells[column][size_t(row)];
  if (!view.data()) return std::nullopt;
  return view;
}

std::string describe_row(const std::string& file, int64_t row, int64_t line) {
  std::string text = file + ": row " + std::to_string(row);
  if (line > 0) text += " (line " + std::to_string(line) + ")";
  return text;
}

Table read_table(const std::string& path, const TextOptions& options, NestedCells nested) {
  check_readable(path);
  const Format format = format_of(path);
  auto data = std::make_shared<Table::Data>();
  data->file = path;
  data->has_header = !options.no_header;
  if (format == Format::parquet) {
    data->has_header = true;
    table::read_parquet(path, nested, *data);
  } else {
    std::string bytes = read_file(path, "data.read");
    if (bytes.empty())
      throw Error("data.read", path + " is empty", "a file with a header and rows");
    const std::string first_bytes = bytes.substr(0, 4);
    table::Source source{path,
                         decode_text(std::move(bytes), options.encoding, path,
                                     {.keep_going = options.skip_bad_rows}),
                         options};
    // A file of another encoding altogether is named as such, not by its first byte.
    if (!source.decoded.bad.empty() && source.decoded.bad[0].offset == 0 &&
        (first_bytes.starts_with("\xFF\xFE") || first_bytes.starts_with("\xFE\xFF")))
      throw Error("data.read",
                  path + ": line 1: the bytes " + source.decoded.bad[0].bytes + " are not " +
                      options.encoding,
                  encoding_hint(options.encoding, first_bytes));
    char delimiter = '\t';
    switch (format) {
      case Format::csv:
        delimiter = csv_delimiter(source.decoded.text, data->has_header);
        table::read_delimited(std::move(source), delimiter, true, *data);
        break;
      case Format::tsv:
        table::read_delimited(std::move(source), delimiter, false, *data);
        break;
      case Format::label:
        table::read_label_lines(std::move(source), *data);
        break;
      default:
        table::read_json_rows(std::move(source), nested, *data);
    }
  }
  if (data->source_rows.empty() && data->bad_rows.empty()) {
    if (data->columns.empty())
      throw Error("data.read", path + " is empty", "a file with a header and rows");
    throw Error("data.read", path + " has a header and no rows",
                data->has_header && format != Format::parquet
                    ? ".data.no_header = true (--no-header) where its first line is a row"
                    : "");
  }
  return Table(std::move(data));
}

}  // namespace yoke
