#include "yoke/data/token_dataset.h"

#include <atomic>
#include <cmath>
#include <optional>
#include <unordered_map>

#include "yoke/core/error.h"
#include "yoke/core/json.h"
#include "yoke/core/log.h"
#include "yoke/core/suggest.h"
#include "yoke/data/table.h"
#include "yoke/data/text_dataset_impl.h"
#include "yoke/tokenizers/unicode.h"

namespace yoke {
namespace {

constexpr const char* known_tokens[] = {"tokens", "words"};
constexpr const char* known_labels[] = {"labels", "ner_tags", "tags", "label", "ner"};

const char* const row_example = R"({"tokens": ["John", "lives"], "labels": ["B-PER", "O"]})";

// A row is not usable, and why.
struct BadRowError {
  std::string what;
};

std::string shown(const Json& value) {
  std::string text = value.dump(-1, ' ', false, Json::error_handler_t::replace);
  size_t length = 40;
  if (text.size() <= length) return text;
  while (length > 0 && is_continuation(text[length])) --length;
  return text.substr(0, length) + "…";
}

std::string count_of(size_t count, const std::string& what) {
  return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
}

std::optional<size_t> find_column(const Table& table, const std::string& given,
                                  const std::string& option, const char* const* first,
                                  const char* const* last) {
  if (!given.empty()) return given_column(table, given, option);
  std::vector<size_t> found;
  for (; first != last; ++first)
    for (size_t c = 0; c < table.columns().size(); ++c)
      if (plain_column_name(table.columns()[c].name) == *first) found.push_back(c);
  if (found.empty()) return std::nullopt;
  if (found.size() > 1)
    log_info(table.file() + ": " + (option == "text_column" ? "words" : "labels") +
             " are read from \"" + table.columns()[found[0]].name + "\", not from \"" +
             table.columns()[found[1]].name + "\"");
  return found[0];
}

struct TokenColumns {
  size_t tokens = 0;
  std::optional<size_t> labels;
};

TokenColumns find_columns(const Table& table, const TextOptions& options, LabelNeed need) {
  std::vector<std::string> names, lists;
  for (const auto& column : table.columns()) {
    names.push_back(column.name);
    if (column.kind == CellKind::list) lists.push_back(column.name);
  }
  if (lists.empty())
    throw Error(
        "data.read",
        table.file() +
            ": no column holds lists, and for token classification a row is a "
            "list of words with a list of labels",
        std::string("JSON lines such as ") + row_example + "; a CSV or TSV file cannot hold lists");
  const auto tokens = find_column(table, options.text_column, "text_column",
                                  std::begin(known_tokens), std::end(known_tokens));
  std::optional<size_t> labels;
  if (need != LabelNeed::ignored)
    labels = find_column(table, options.label_column, "label_column", std::begin(known_labels),
                         std::end(known_labels));
  const auto missing = [&](const char* what, const char* option) {
    return Error("data.read",
                 table.file() + ": no column is known to hold " + what + "; the columns are " +
                     join_names(names, 20),
                 spell_option(option, lists[0]) + ", or rows such as " + row_example);
  };
  if (!tokens) throw missing("lists of words", "text_column");
  if (need == LabelNeed::required && !labels) throw missing("lists of labels", "label_column");
  if (labels && *labels == *tokens)
    throw Error("data.read",
                table.file() + ": column \"" + names[*tokens] + "\" is to be both words and labels",
                "two different columns");
  for (const std::optional<size_t>& column : {tokens, labels})
    if (column && table.columns()[*column].kind != CellKind::list)
      throw Error("data.read",
                  table.file() + ": column \"" + names[*column] + "\" does not hold lists",
                  "one of: " + join_names(lists, 20) + "; or rows such as " + row_example);
  return {*tokens, labels};
}

// A cell as the list it is.
Json list_of(const Table& table, int64_t row, size_t column) {
  const std::string name = "\"" + table.columns()[column].name + "\"";
  const auto cell = table.cell(row, column);
  if (!cell) throw BadRowError{"has no " + name};
  if (find_ill_formed(*cell)) throw BadRowError{"holds bytes that are not utf-8"};
  Json list = Json::parse(*cell, nullptr, false);
  if (!list.is_array()) throw BadRowError{"has a " + name + " that is not a list of plain values"};
  return list;
}

std::vector<std::string> words_of(Json list) {
  std::vector<std::string> words;
  words.reserve(list.size());
  for (auto& item : list) {
    if (!item.is_string())
      throw BadRowError{"has a token " + std::to_string(words.size() + 1) +
                        " that is not a string: " + shown(item)};
    words.push_back(std::move(item.get_ref<std::string&>()));
  }
  return words;
}

// A label as text; nothing for one that is no target.
std::optional<std::string> label_of(const Json& item, size_t index) {
  if (item.is_null()) return std::nullopt;
  const auto bad = [&](const std::string& what) {
    return BadRowError{"has a label " + std::to_string(index + 1) + " that is " + what};
  };
  if (item.is_string()) {
    const auto& text = item.get_ref<const std::string&>();
    const size_t begin = text.find_first_not_of(" \t\r\n");
    if (begin == std::string::npos) throw bad("empty");
    return text.substr(begin, text.find_last_not_of(" \t\r\n") + 1 - begin);
  }
  // Numbers with ".0" are what tables make of whole numbers beside a null.
  const bool whole_real = item.is_number_float() && std::abs(item.get<double>()) < 9e15 &&
                          std::trunc(item.get<double>()) == item.get<double>();
  if (!item.is_number_integer() && !whole_real)
    throw bad("neither a string nor a whole number: " + shown(item));
  const std::string text = whole_real ? std::to_string(int64_t(item.get<double>())) : item.dump();
  if (text == std::to_string(ignored_label)) return std::nullopt;
  return text;
}

}  // namespace

std::string TokenDataset::describe(int64_t row) const {
  const auto at = size_t(row);
  return describe_row(file, at < source_rows.size() ? source_rows[at] : row + 1,
                      at < lines.size() ? lines[at] : 0);
}

std::string TokenDataset::describe_label(size_t label) const {
  const auto [row, word] = label_places[label];
  return describe(row) + ", token " + std::to_string(word + 1) + " (" +
         shown(Json(tokens[size_t(row)][size_t(word)])) + ")";
}

TokenDataset load_token_dataset(const std::string& path, const TextOptions& options, LabelNeed need,
                                int64_t max_rows) {
  if (!options.text_pair_column.empty())
    throw Error("data.read", path + ": token classification has no second text",
                "no .data.text_pair_column (--text-pair-column)");
  const Table table = read_table(path, options, NestedCells::json);
  Refusals refusals(table, options.skip_bad_rows);
  if (table.rows() == 0) {
    refusals.add_bad_rows();
    refusals.report();
    throw Error("data.read", path + ": every row is bad", "another file, or another --encoding");
  }
  const TokenColumns columns = find_columns(table, options, need);
  TokenDataset data;
  data.file = path;
  data.token_column = table.columns()[columns.tokens].name;
  if (columns.labels) data.label_column = table.columns()[*columns.labels].name;

  std::unordered_map<std::string, int32_t> numbers;
  const auto full = [&] { return max_rows > 0 && data.rows() >= max_rows; };
  for (int64_t row = 0; row < table.rows() && !full(); ++row) {
    refusals.add_bad_rows_before(table.source_row(row));
    try {
      auto words = words_of(list_of(table, row, columns.tokens));
      std::vector<std::optional<std::string>> labels;
      if (columns.labels) {
        const Json list = list_of(table, row, *columns.labels);
        if (list.size() != words.size())
          throw BadRowError{"has " + count_of(words.size(), "token") + " and " +
                            count_of(list.size(), "label")};
        for (const auto& item : list) labels.push_back(label_of(item, labels.size()));
      }
      // From here on the row is good.
      if (columns.labels) data.labels.emplace_back();
      for (size_t word = 0; word < labels.size(); ++word) {
        if (!labels[word]) {
          data.labels.back().push_back(int32_t(ignored_label));
          continue;
        }
        const auto [at, is_new] = numbers.try_emplace(*labels[word], int32_t(numbers.size()));
        if (is_new) {
          data.label_names.push_back(*labels[word]);
          data.label_places.emplace_back(data.rows(), int64_t(word));
        }
        data.labels.back().push_back(at->second);
      }
      data.tokens.push_back(std::move(words));
      data.source_rows.push_back(table.source_row(row));
      data.lines.push_back(table.line(row));
    } catch (const BadRowError& bad) {
      refusals.add(table.source_row(row), table.line(row), bad.what);
    }
  }
  if (!full()) refusals.add_bad_rows();
  data.skipped = refusals.report();
  if (data.rows() == 0)
    throw Error("data.read", path + ": every row is bad", "another file, or other columns");
  return data;
}

TokenizedRows tokenize(const TokenDataset& data, const Tokenizer& tokenizer, int64_t max_length,
                       int threads) {
  TokenizedRows rows;
  rows.input_ids.resize(size_t(data.rows()));
  rows.word_ids.resize(size_t(data.rows()));
  const EncodeOptions options{.max_length = max_length};
  std::atomic<int64_t> shortened{0};
  encode_rows(
      data.rows(), threads,
      [&](int64_t row) {
        Encoding encoding = tokenizer.encode_words(data.tokens[size_t(row)], options);
        if (encoding.truncated) ++shortened;
        rows.input_ids[size_t(row)] = std::move(encoding.ids);
        rows.word_ids[size_t(row)] = std::move(encoding.word_ids);
      },
      [&](int64_t row) {
        return data.file.empty() ? "text " + std::to_string(data.source_rows[size_t(row)])
                                 : data.describe(row);
      });
  rows.shortened = shortened;
  return rows;
}

std::vector<std::string> split_words(std::string_view text) {
  check_utf8(text, "data.split");
  std::vector<std::string> words;
  bool inside = false;
  for (size_t at = 0; at < text.size();) {
    const size_t begin = at;
    const char32_t c = next_code_point(text, at);
    // U+001C to U+001F part words for Python, without being White_Space.
    const bool space = has(class_of(c), CharClass::space) || (c >= 0x1C && c <= 0x1F);
    if (!space) {
      if (!inside) words.emplace_back();
      words.back() += text.substr(begin, at - begin);
    }
    inside = !space;
  }
  return words;
}

}  // namespace yoke
