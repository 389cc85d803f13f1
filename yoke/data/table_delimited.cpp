// CSV, TSV and "label text" lines. Arrow cuts the cells; the scan beside it knows records and
// lines, which Arrow does not tell.
#include <algorithm>
#include <array>
#include <cstring>

#include "yoke/core/error.h"
#include "yoke/data/table_impl.h"

namespace yoke::table {
namespace {

bool is_newline(char c) { return c == '\n' || c == '\r'; }

// Behind the newline that stands at `i`.
size_t skip_newline(std::string_view text, size_t i) {
  return i + (text[i] == '\r' && i + 1 < text.size() && text[i + 1] == '\n' ? 2 : 1);
}

// CR, LF and CRLF each count one.
int64_t count_newlines(std::string_view text) {
  int64_t lines = 0;
  for (size_t i = 0; i < text.size(); ++i)
    lines += text[i] == '\n' || (text[i] == '\r' && (i + 1 == text.size() || text[i + 1] != '\n'));
  return lines;
}

// Cuts text into fields one after another.
class FieldScanner {
 public:
  FieldScanner(std::string_view text, char delimiter, bool quoting)
      : text_(text), delimiter_(delimiter), quoting_(quoting) {
    stops_[uint8_t(delimiter)] = stops_['\n'] = stops_['\r'] = true;
  }

  size_t at() const { return at_; }
  bool done() const { return at_ >= text_.size(); }
  int64_t newlines_inside() const { return newlines_inside_; }  // of all quoted fields so far
  bool open_quote() const { return open_quote_; }

  // Passes one field and what ends it; false when a delimiter did, so that another follows.
  bool next_ends_record() {
    if (quoting_ && at_ < text_.size() && text_[at_] == '"') pass_quotes();
    while (at_ < text_.size() && !stops_[uint8_t(text_[at_])]) ++at_;
    if (done()) return true;
    if (text_[at_] == delimiter_) {
      ++at_;
      return false;
    }
    at_ = skip_newline(text_, at_);
    return true;
  }

 private:
  void pass_quotes() {
    const size_t begin = ++at_;
    for (;;) {
      const size_t quote = text_.find('"', at_);
      if (quote == std::string_view::npos) {
        open_quote_ = true;
        at_ = text_.size();
        break;
      }
      at_ = quote + 1;
      if (at_ >= text_.size() || text_[at_] != '"') break;
      ++at_;  // a doubled quote is one character of the field
    }
    newlines_inside_ += count_newlines(text_.substr(begin, at_ - begin));
  }

  std::string_view text_;
  char delimiter_;
  bool quoting_;
  std::array<bool, 256> stops_{};
  size_t at_ = 0;
  int64_t newlines_inside_ = 0;
  bool open_quote_ = false;
};

std::string fields(size_t n) { return std::to_string(n) + (n == 1 ? " field" : " fields"); }

// Strict decoding stopped at a fault: the record that the next character would belong to.
Place place_of_end(std::string text, char delimiter, bool quoting, bool has_header,
                   bool keep_blank) {
  text += '?';
  const Records records = scan_records(text, delimiter, quoting);
  int64_t row = has_header ? -1 : 0;
  for (size_t i = 0; i < records.begin.size(); ++i) row += keep_blank || !records.blank[i];
  const size_t begin = records.begin.back();
  return {row, records.line.back() + count_newlines(std::string_view(text).substr(begin))};
}

}  // namespace

size_t Records::of_offset(size_t offset) const {
  return size_t(std::upper_bound(begin.begin(), begin.end(), offset) - begin.begin()) - 1;
}

Records scan_records(std::string_view text, char delimiter, bool quoting) {
  Records records;
  FieldScanner scanner(text, delimiter, quoting);
  int64_t line = 1;
  while (!scanner.done()) {
    const size_t begin = scanner.at();
    const int64_t inside = scanner.newlines_inside();
    while (!scanner.next_ends_record()) {
    }
    records.begin.push_back(begin);
    records.line.push_back(line);
    records.blank.push_back(is_newline(text[begin]));
    records.longest = std::max(records.longest, scanner.at() - begin);
    if (scanner.open_quote()) records.open_quote_line = line;
    line += 1 + scanner.newlines_inside() - inside;
  }
  return records;
}

size_t count_fields(std::string_view text, char delimiter, bool quoting) {
  FieldScanner scanner(text, delimiter, quoting);
  size_t count = 1;
  while (!scanner.next_ends_record()) ++count;
  return count;
}

void fail_bad_bytes(const Source& source, const BadBytes& bad, Place place) {
  const std::string where =
      place.row > 0 ? describe_row(source.path, place.row, place.line)
                    : source.path + ": header (line " + std::to_string(place.line) + ")";
  throw Error("data.read",
              where + ": the bytes " + bad.bytes + " are not " + source.options.encoding,
              encoding_hint(source.options.encoding, ""));
}

void read_delimited(Source source, char delimiter, bool quoting, Table::Data& data) {
  const std::string& file = source.path;
  const bool lenient = source.options.skip_bad_rows;
  std::string& bytes = source.decoded.text;
  // Arrow takes a header without a newline for nothing. (Before bad bytes the text has no end.)
  if ((lenient || source.decoded.bad.empty()) && !bytes.empty() && !is_newline(bytes.back()))
    bytes += '\n';
  const std::string_view text = bytes;
  const bool header = data.has_header;

  const size_t first_text = std::min(text.find_first_not_of("\r\n"), text.size());
  const size_t columns = count_fields(text.substr(first_text), delimiter, quoting);
  const bool keep_blank = columns == 1 && !quoting;  // there a blank line is an empty text
  if (!source.decoded.bad.empty() && !lenient)
    fail_bad_bytes(source, source.decoded.bad[0],
                   place_of_end(source.decoded.text, delimiter, quoting, header, keep_blank));

  const Records records = scan_records(text, delimiter, quoting);
  if (records.open_quote_line)
    throw Error("data.read",
                file + ": line " + std::to_string(records.open_quote_line) +
                    ": a quote opens a field and never closes",
                "close it; or, where quotes are characters of the text, name the file .tsv and "
                "separate with TAB");
  size_t start =
      0;  // the record that Arrow begins with; leading blank lines would hide the columns
  while (start < records.begin.size() && records.blank[start] && (header || !keep_blank)) ++start;
  if (start == records.begin.size()) return;
  ArrowCells cut = cut_delimited(file, text.substr(records.begin[start]), delimiter, quoting,
                                 columns, records.longest);

  // The records of Arrow and of the scan must be the same ones.
  const size_t count = records.begin.size() - start;
  if (cut.cells[0].size() + cut.bad.size() != count)
    throw Error("data.read",
                file + ": " + std::to_string(count) + " records, Arrow found " +
                    std::to_string(cut.cells[0].size() + cut.bad.size()),
                "please report this file");
  std::vector<size_t> bad_bytes;  // records, in order; doubles do no harm
  for (const auto& bad : source.decoded.bad) bad_bytes.push_back(records.of_offset(bad.offset));
  if (header && std::binary_search(bad_bytes.begin(), bad_bytes.end(), start))
    fail_bad_bytes(source, source.decoded.bad[0], {0, records.line[start]});

  data.cells.resize(columns);
  for (auto& cells : data.cells) cells.reserve(cut.cells[0].size());
  int64_t row = 0;
  size_t next_bad = 0, next_cell = 0;
  for (size_t r = start; r < records.begin.size(); ++r) {
    const bool misshapen = next_bad < cut.bad.size() && cut.bad[next_bad].first == r - start;
    const size_t found = misshapen ? cut.bad[next_bad++].second : columns;
    const size_t cell = misshapen ? 0 : next_cell++;
    if (header && r == start) {
      for (size_t c = 0; c < columns; ++c)
        data.columns.push_back({std::string(cut.cells[c][cell])});
      continue;
    }
    if (records.blank[r] && !keep_blank) continue;
    ++row;
    const int64_t line = records.line[r];
    if (const auto at = std::lower_bound(bad_bytes.begin(), bad_bytes.end(), r);
        at != bad_bytes.end() && *at == r) {
      const auto& bad = source.decoded.bad[size_t(at - bad_bytes.begin())];
      data.bad_rows.push_back({row, line,
                               "the bytes " + bad.bytes + " are not " + source.options.encoding,
                               encoding_hint(source.options.encoding, "")});
    } else if (misshapen) {
      std::string hint = found < columns ? ""
                         : quoting       ? "quotes around fields that hold the separator"
                                         : "no TAB inside a text";
      data.bad_rows.push_back({row, line,
                               "has " + fields(found) + ", the " +
                                   (header ? "header" : "first row") + " has " +
                                   std::to_string(columns),
                               std::move(hint)});
    } else {
      for (size_t c = 0; c < columns; ++c) data.cells[c].push_back(cut.cells[c][cell]);
      data.source_rows.push_back(row);
      data.lines.push_back(line);
    }
  }
  if (!header)
    for (size_t c = 0; c < columns; ++c) data.columns.push_back({std::to_string(c)});
  data.storage = {std::move(cut.storage)};
}

void read_label_lines(Source source, Table::Data& data) {
  data.has_header = false;
  if (!source.decoded.bad.empty() && !source.options.skip_bad_rows)
    fail_bad_bytes(source, source.decoded.bad[0],
                   place_of_end(source.decoded.text, '\t', false, false, false));
  data.columns = {{"0"}, {"1"}};
  data.cells.resize(2);
  const auto kept = std::make_shared<const std::string>(std::move(source.decoded.text));
  const std::string_view text = *kept;
  const Records records = scan_records(text, '\t', false);
  const std::string separators =
      text.substr(0, text.find_first_of("\r\n")).find('\t') != std::string_view::npos ? "\t" : " ";
  size_t next_bad = 0;
  int64_t row = 0;
  for (size_t r = 0; r < records.begin.size(); ++r) {
    const size_t begin = records.begin[r];
    const size_t end = std::min(text.find_first_of("\r\n", begin), text.size());
    const std::string_view line = text.substr(begin, end - begin);
    const BadBytes* bad = nullptr;
    for (; next_bad < source.decoded.bad.size() && source.decoded.bad[next_bad].offset < end;
         ++next_bad)
      bad = &source.decoded.bad[next_bad];
    if (line.empty()) continue;
    ++row;
    const size_t cut = line.find_first_of(separators);
    if (bad || cut == std::string_view::npos) {
      data.bad_rows.push_back(
          {row, records.line[r],
           bad ? "the bytes " + bad->bytes + " are not " + source.options.encoding
               : "has a label and no text",
           bad ? encoding_hint(source.options.encoding, "") : ""});
      continue;
    }
    data.cells[0].push_back(cut == 0 ? empty_cell : line.substr(0, cut));
    data.cells[1].push_back(cut + 1 == line.size() ? empty_cell : line.substr(cut + 1));
    data.source_rows.push_back(row);
    data.lines.push_back(records.line[r]);
  }
  data.storage = {kept};
}

}  // namespace yoke::table
