// Column detection.
#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstring>
#include <unordered_set>

#include "yoke/core/error.h"
#include "yoke/core/log.h"
#include "yoke/core/suggest.h"
#include "yoke/data/text_dataset_impl.h"

namespace yoke {
namespace {

using Found = std::optional<size_t>;

struct PairNames {
  const char* text;
  const char* pair;
};

// A pair wins over one of its halves.
constexpr PairNames known_pairs[] = {
    {"sentence1", "sentence2"}, {"question1", "question2"},  {"premise", "hypothesis"},
    {"question", "sentence"},   {"question", "passage"},     {"question", "context"},
    {"query", "passage"},       {"text", "text_pair"},       {"text1", "text2"},
    {"text_a", "text_b"},       {"sentence_a", "sentence_b"}};

constexpr const char* known_texts[] = {
    "text",   "sentence", "sentence1", "question",    "question1",   "premise",  "content",
    "review", "document", "query",     "message",     "tweet",       "sms",      "comment",
    "body",   "article",  "utterance", "review_body", "description", "headline", "title"};

constexpr const char* known_labels[] = {"label",       "labels",    "class",      "category",
                                        "target",      "sentiment", "gold_label", "label_id",
                                        "class_index", "intent",    "topic",      "emotion",
                                        "rating",      "stars",     "score",      "is_duplicate"};

// Columns that number the rows; never taken for a text or a label because nothing else is left.
constexpr const char* row_numbers[] = {"id", "idx", "index", "guid", "uid", "row", ""};

std::string_view trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t") + 1 - begin);
}

bool is_number(std::string_view text) {
  text = trimmed(text);
  if (!text.empty() && text[0] == '+') text.remove_prefix(1);
  double value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  return code == std::errc() && end == text.data() + text.size();
}

bool has_blank(std::string_view text) {
  return trimmed(text).find_first_of(" \t\n") != std::string_view::npos;
}

// At most `length` bytes, cut between characters.
std::string shortened(std::string_view text, size_t length = 40) {
  if (text.size() <= length) return std::string(text);
  while (length > 0 && (text[length] & 0xC0) == 0x80) --length;
  return std::string(text.substr(0, length)) + "…";
}

// What the first rows of a column look like.
struct Content {
  int64_t rows = 0;
  size_t bytes = 0;
  size_t distinct = 0;
  bool all_numbers = true;
  bool any_blank = false;
};

class Finder {
 public:
  Finder(const Table& table, const TextOptions& options, LabelNeed need)
      : table_(table), options_(options), need_(need) {
    for (const auto& column : table.columns()) names_.push_back(column.name);
  }

  TextColumns find() {
    if (!options_.text_column.empty()) text_ = given(options_.text_column, "text_column");
    if (!options_.text_pair_column.empty())
      pair_ = given(options_.text_pair_column, "text_pair_column");
    if (want_label() && !options_.label_column.empty())
      label_ = given(options_.label_column, "label_column");
    if (table_.has_header()) {
      find_by_name();
    } else {
      find_by_content();
    }
    if (!text_ || (need_ == LabelNeed::required && !label_)) not_found();
    check();
    return {*text_, pair_, label_};
  }

 private:
  bool want_label() const { return need_ != LabelNeed::ignored; }
  bool taken(size_t column) const { return column == text_ || column == pair_ || column == label_; }
  size_t size() const { return names_.size(); }

  size_t given(const std::string& name, const std::string& option) const {
    return given_column(table_, name, option);
  }

  Found by_name(const char* known) const {
    for (size_t c = 0; c < size(); ++c)
      if (!taken(c) && plain_column_name(names_[c]) == known) return c;
    return std::nullopt;
  }

  void find_by_name() {
    if (want_label() && !label_) label_ = first_known(known_labels, "labels");
    if (!text_ && !pair_) {
      for (const auto& known : known_pairs) {
        const Found text = by_name(known.text), pair = by_name(known.pair);
        if (!text || !pair) continue;
        text_ = text;
        pair_ = pair;
        return;
      }
    }
    if (!text_) text_ = first_known(known_texts, "texts");
    // Two columns, one of them known: the other is what is still wanted.
    if (size() != 2 || pair_) return;
    if (!text_ && label_ && need_ == LabelNeed::required) text_ = other(*label_, "texts");
    if (!label_ && text_ && need_ == LabelNeed::required) label_ = other(*text_, "labels");
  }

  template <size_t n>
  Found first_known(const char* const (&known)[n], const std::string& what) const {
    std::vector<size_t> found;
    for (const char* name : known)
      if (const Found column = by_name(name)) found.push_back(*column);
    if (found.empty()) return std::nullopt;
    if (found.size() > 1) {
      std::vector<std::string> others;
      for (size_t i = 1; i < found.size(); ++i) others.push_back("\"" + names_[found[i]] + "\"");
      log_info(table_.file() + ": " + what + " are read from \"" + names_[found[0]] +
               "\", not from " + join_names(others));
    }
    return found[0];
  }

  Found other(size_t column, const std::string& what) const {
    const size_t rest = 1 - column;
    for (const char* number : row_numbers)
      if (plain_column_name(names_[rest]) == number) return std::nullopt;
    log_info(table_.file() + ": " + what + " are read from \"" + names_[rest] + "\"");
    return rest;
  }

  Content content(size_t column, int64_t limit) const {
    Content found;
    std::unordered_set<std::string_view> distinct;
    for (; found.rows < std::min(table_.rows(), limit); ++found.rows) {
      const auto cell = table_.cell(found.rows, column).value_or("");
      distinct.insert(cell);
      found.bytes += cell.size();
      found.all_numbers &= is_number(cell);
      found.any_blank |= has_blank(cell);
    }
    found.distinct = distinct.size();
    return found;
  }

  // Without a header. One column is the text; of two, one is the label.
  void find_by_content() {
    if (size() == 1 && !want_label() && !text_) text_ = 0;
    if (size() == 1 && need_ == LabelNeed::optional && !label_) text_ = 0;
    if (size() != 2 || pair_) return;
    if (text_ && !label_ && want_label()) label_ = 1 - *text_;
    if (label_ && !text_) text_ = 1 - *label_;
    if (text_) return;
    const Content a = content(0, 10000), b = content(1, 10000);
    // Each sign votes for the first column (-1) or the second (1) as the label.
    const auto less = [](double x, double y, double factor) {
      return x * factor <= y ? -1 : y * factor <= x ? 1 : 0;
    };
    const int signs[] = {
        less(double(a.distinct), double(b.distinct), 2), int(b.all_numbers) - int(a.all_numbers),
        int(a.any_blank) - int(b.any_blank), less(double(a.bytes), double(b.bytes), 2)};
    const int for_first = int(std::count(std::begin(signs), std::end(signs), -1));
    const int for_second = int(std::count(std::begin(signs), std::end(signs), 1));
    if ((for_first == 0) == (for_second == 0)) return;  // no sign, or signs that differ
    const size_t label = for_first ? 0 : 1;
    text_ = 1 - label;
    if (want_label()) label_ = label;
    log_info(table_.file() + ": column " + std::to_string(*text_) + " holds the texts, column " +
             std::to_string(label) + " the labels");
  }

  void check() const {
    const auto same = [&](Found a, Found b, const char* what) {
      if (a && b && *a == *b)
        throw Error("data.read", table_.file() + ": column \"" + names_[*a] + "\" is to be " + what,
                    "two different columns");
    };
    same(text_, label_, "both text and label");
    same(text_, pair_, "both text and text pair");
    same(pair_, label_, "both text pair and label");
    for (const Found column : {text_, pair_, label_})
      if (column && table_.columns()[*column].kind == CellKind::list)
        throw Error("data.read",
                    table_.file() + ": column \"" + names_[*column] +
                        "\" holds lists or objects, not one text or label a row",
                    "another column: " + join_names(names_, 20));
  }

  // The column that looks most like text: the longest; like labels: the fewest different values.
  Found guess(bool text) const {
    Found best;
    double best_score = 0;
    for (size_t c = 0; c < size(); ++c) {
      if (taken(c)) continue;
      const Content found = content(c, 1000);
      const double score = text ? double(found.bytes) : -double(found.distinct);
      // Of equals, labels rather stand last.
      if (!best || score > best_score || (!text && score == best_score)) {
        best = c;
        best_score = score;
      }
    }
    return best;
  }

  // Whether the header may be a row already.
  bool header_looks_like_row() const {
    return std::any_of(names_.begin(), names_.end(), [](const std::string& name) {
      return is_number(name) || name.size() > 40 || std::count(name.begin(), name.end(), ' ') >= 3;
    });
  }

  [[noreturn]] void not_found() {
    const bool no_text = !text_;
    const bool no_label = need_ == LabelNeed::required && !label_;
    std::string shown;
    for (size_t c = 0; c < std::min<size_t>(size(), 8); ++c) {
      const auto cell = table_.cell(0, c);
      shown += (c ? ", " : "") + shortened(names_[c]) + ": " +
               (cell ? "\"" + shortened(*cell) + "\"" : "nothing");
    }
    if (size() > 8) shown += ", …";
    std::string hint;
    if (no_text) {
      if (const Found best = guess(true)) {
        hint = spell_option("text_column", option_value(*best));
        text_ = best;  // not the label too
      }
    }
    if (no_label) {
      if (!hint.empty()) hint += ", ";
      const Found best = guess(false);
      hint += best ? spell_option("label_column", option_value(*best))
                   : "a file with a column of labels";
    }
    if (table_.has_header() && header_looks_like_row())
      hint += "; .data.no_header = true (--no-header) where the first line is a row";
    const std::string what = no_text && no_label ? "no column is known to hold texts or labels"
                             : no_text           ? "no column is known to hold texts"
                                                 : "no column is known to hold labels";
    throw Error(
        "data.read",
        table_.file() + ": " +
            (table_.has_header() ? what : "which column is text and which is label is not clear") +
            "; row 1 is " + shown,
        hint);
  }

  // A name that is long or empty is given by its number.
  std::string option_value(size_t column) const {
    const auto& name = names_[column];
    const bool usable =
        !name.empty() && name.size() <= 40 && std::count(names_.begin(), names_.end(), name) == 1;
    return usable ? name : std::to_string(column);
  }

  const Table& table_;
  const TextOptions& options_;
  const LabelNeed need_;
  std::vector<std::string> names_;
  Found text_, pair_, label_;
};

}  // namespace

std::string plain_column_name(std::string_view name) {
  std::string plain;
  for (char c : trimmed(name))
    plain += c == ' ' || c == '-' ? '_' : char(std::tolower(static_cast<unsigned char>(c)));
  return plain;
}

std::string spell_option(const std::string& option, const std::string& value) {
  std::string dashes = option;
  std::replace(dashes.begin(), dashes.end(), '_', '-');
  const bool plain = std::all_of(value.begin(), value.end(), [](unsigned char c) {
    return std::isalnum(c) || c >= 0x80 || std::strchr("_-./", c);
  });
  return ".data." + option + " = \"" + value + "\" (--" + dashes + " " +
         (plain ? value : "\"" + value + "\"") + ")";
}

size_t given_column(const Table& table, const std::string& name, const std::string& option) {
  std::vector<std::string> names;
  for (const auto& column : table.columns()) names.push_back(column.name);
  for (size_t c = 0; c < names.size(); ++c)
    if (names[c] == name) return c;
  for (size_t c = 0; c < names.size(); ++c)
    if (plain_column_name(names[c]) == plain_column_name(name)) return c;
  size_t number = 0;
  const auto [end, code] = std::from_chars(name.data(), name.data() + name.size(), number);
  if (code == std::errc() && end == name.data() + name.size() && number < names.size())
    return number;
  std::string hint = nearest_name(name, names);
  hint = hint.empty() ? "a name, or a number from 0 to " + std::to_string(names.size() - 1)
                      : spell_option(option, hint);
  throw Error("data.read",
              table.file() + ": there is no column \"" + name + "\"; the columns are " +
                  join_names(names, 20),
              hint);
}

TextColumns find_text_columns(const Table& table, const TextOptions& options, LabelNeed need) {
  return Finder(table, options, need).find();
}

}  // namespace yoke
