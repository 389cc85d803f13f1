#include "yoke/data/labels.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <set>
#include <unordered_map>

#include "yoke/core/error.h"
#include "yoke/core/log.h"
#include "yoke/core/suggest.h"
#include "yoke/data/text_dataset.h"
#include "yoke/data/token_dataset.h"

namespace yoke {
namespace {

std::string default_name(int64_t id) { return "LABEL_" + std::to_string(id); }

std::string_view trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t\r\n");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t\r\n") + 1 - begin);
}

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result) c = char(c >= 'A' && c <= 'Z' ? c + 32 : c);
  return result;
}

template <class T>
std::optional<T> parse(std::string_view text) {
  text = trimmed(text);
  if (text.size() > 1 && text[0] == '+' && text[1] != '-') text.remove_prefix(1);
  T value{};
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// "3", "+3", "3.0", "3e0" -> 3. Above 2^53 only integers that are written as such.
std::optional<int64_t> whole_number(std::string_view text) {
  if (const auto integer = parse<int64_t>(text)) return integer;
  const auto real = label_number(text);
  if (!real || std::trunc(*real) != *real || std::fabs(*real) > 9007199254740992.0)
    return std::nullopt;
  return int64_t(*real);
}

// Codes such as "007" are names: as numbers they would lose their zeros.
bool is_code(std::string_view text) {
  text = trimmed(text);
  if (!text.empty() && (text[0] == '-' || text[0] == '+')) text.remove_prefix(1);
  return text.size() > 1 && text[0] == '0' && text[1] >= '0' && text[1] <= '9';
}

// k of "LABEL_k", transformers' name for a class without one.
std::optional<int64_t> default_id(std::string_view text) {
  if (!text.starts_with("LABEL_")) return std::nullopt;
  const auto id = parse<int64_t>(text.substr(6));
  if (!id || *id < 0 || default_name(*id) != text) return std::nullopt;
  return id;
}

// Whether the ids are exactly 0..K-1.
bool counts_classes(const std::set<int64_t>& ids) {
  return !ids.empty() && *ids.begin() == 0 && *ids.rbegin() == int64_t(ids.size()) - 1;
}

std::string in_quotes(std::string_view label) {
  constexpr size_t limit = 60;
  std::string text(label.substr(0, limit));
  while (text.size() < label.size() && !text.empty() &&
         (static_cast<unsigned char>(label[text.size()]) & 0xC0) == 0x80)
    text.pop_back();
  return "\"" + text + (text.size() < label.size() ? "…\"" : "\"");
}

}  // namespace

std::optional<double> label_number(std::string_view label) {
  const auto value = parse<double>(label);
  if (!value || !std::isfinite(*value)) return std::nullopt;
  return value;
}

LabelMap LabelMap::from_labels(const std::vector<std::string>& labels) {
  TextDataset data;
  data.labels = labels;
  return from_labels(data);
}

LabelMap LabelMap::from_labels(const TextDataset& data) {
  std::map<std::string_view, size_t> distinct;  // UTF-8 sorts by code point
  for (size_t row = 0; row < data.labels.size(); ++row)
    distinct.try_emplace(trimmed(data.labels[row]), row);
  return from_distinct(distinct, data.labels.size(), data.file, "row", [&](size_t row) {
    const bool placed = row < data.source_rows.size();
    return in_quotes(data.labels[row]) +
           (placed ? " in row " + std::to_string(data.source_rows[row]) : std::string());
  });
}

LabelMap LabelMap::from_labels(const TokenDataset& data) {
  std::map<std::string_view, size_t> distinct;
  for (size_t label = 0; label < data.label_names.size(); ++label)
    distinct.try_emplace(data.label_names[label], label);
  const auto show = [&](size_t label) {
    return in_quotes(data.label_names[label]) + " in row " +
           std::to_string(data.source_rows[size_t(data.label_places[label].first)]);
  };
  size_t count = 0;
  for (const auto& row : data.labels) count += row.size();
  LabelMap map = from_distinct(distinct, count, data.file, "token", show);
  if (!map.regression()) return map;
  size_t fraction = 0;
  while (whole_number(data.label_names[fraction])) ++fraction;
  throw Error("data.labels",
              data.file + ": the label " + show(fraction) +
                  " has a fraction, and the labels of tokens are classes",
              "words, or whole numbers from 0");
}

LabelMap LabelMap::from_distinct(const std::map<std::string_view, size_t>& distinct, size_t count,
                                 const std::string& file_name, const std::string& unit,
                                 const std::function<std::string(size_t)>& show) {
  bool all_numbers = true, all_default = true;
  std::optional<size_t> word_row, fraction_row;
  std::set<int64_t> whole, defaults;
  for (const auto& [label, row] : distinct) {
    const auto id = default_id(label);
    all_default &= id.has_value();
    if (id) defaults.insert(*id);
    const auto integer = whole_number(label);
    const bool word = is_code(label) || (!integer && !label_number(label));
    const bool fraction = !word && !integer;
    if (word && (!word_row || row < *word_row)) word_row = row;
    if (fraction && (!fraction_row || row < *fraction_row)) fraction_row = row;
    if (integer) whole.insert(*integer);
    all_numbers &= !word;
  }

  LabelMap map;
  const std::string file = file_name.empty() ? std::string() : file_name + ": ";
  if (fraction_row && word_row) {
    throw Error(
        "data.labels",
        file + "labels are numbers with fractions and words: " + show(*fraction_row) + ", " +
            show(*word_row),
        "numbers only (a regression) or words only (classes), or another .data.label_column "
        "(--label-column)");
  }
  if (fraction_row) {
    map.regression_ = true;
    map.names_ = {default_name(0)};
    return map;
  }
  if (distinct.size() == 1)
    log_warning(file + "all " + unit + "s have the label " + in_quotes(distinct.begin()->first));
  if (all_numbers ? counts_classes(whole) : all_default && counts_classes(defaults)) {
    const size_t classes = all_numbers ? whole.size() : defaults.size();
    for (size_t id = 0; id < classes; ++id) map.names_.push_back(default_name(int64_t(id)));
    return map;
  }
  if (all_numbers) {
    for (int64_t number : whole) map.names_.push_back(std::to_string(number));
  } else {
    for (const auto& [label, row] : distinct) map.names_.emplace_back(label);
  }
  map.has_names_ = !map.names_.empty();
  if (map.size() > 100 && size_t(map.size()) * 2 > count)
    log_warning(file + std::to_string(map.size()) + " different labels in " +
                std::to_string(count) + " " + unit + "s: is this the column of labels?");
  return map;
}

LabelMap LabelMap::from_config(const Json& config) {
  LabelMap map;
  const auto where = "models.config";
  const auto id2label = config.find("id2label");
  const auto label2id = config.find("label2id");
  std::map<int64_t, std::string> names;
  const auto bad = [&](const char* key) {
    return Error(where, std::string("config.json: ") + key + " does not number its labels 0, 1, …");
  };
  const char* source = "num_labels";
  if (id2label != config.end() && id2label->is_object() && !id2label->empty()) {
    source = "id2label";
    for (const auto& [id, name] : id2label->items()) {
      const auto number = parse<int64_t>(id);
      if (!number || !name.is_string()) throw bad(source);
      names[*number] = name.get<std::string>();
    }
  } else if (label2id != config.end() && label2id->is_object() && !label2id->empty()) {
    source = "label2id";
    for (const auto& [name, id] : label2id->items()) {
      if (!id.is_number_integer()) throw bad(source);
      names[id.get<int64_t>()] = name;
    }
  } else {
    int64_t count = 2;
    const auto given = config.find("num_labels");
    if (given != config.end() && given->is_number_integer()) count = given->get<int64_t>();
    if (count < 1 || count > 1000000)
      throw Error(where, "config.json: num_labels is " + std::to_string(count), "1 or more");
    for (int64_t id = 0; id < count; ++id) names[id] = default_name(id);
  }
  int64_t next = 0;
  for (const auto& [id, name] : names) {
    if (id != next++) throw bad(source);
    map.names_.push_back(name);
    map.has_names_ |= name != default_name(id);
  }
  const auto problem = config.find("problem_type");
  const bool said = problem != config.end() && problem->is_string();
  if (said && *problem == "multi_label_classification")
    throw Error(where, "config.json: problem_type multi_label_classification is not supported",
                "a model for single-label classification or regression");
  if (said && *problem == "regression" && map.size() > 1)
    throw Error(where,
                "config.json: a regression with " + std::to_string(map.size()) +
                    " outputs is not supported",
                "a regression with one output");
  map.regression_ = map.size() == 1 && (!said || *problem == "regression");
  return map;
}

std::optional<int64_t> LabelMap::find(std::string_view label) const {
  label = trimmed(label);
  for (size_t id = 0; id < names_.size(); ++id)
    if (trimmed(names_[id]) == label) return int64_t(id);
  if (const std::string truth = lower(label); truth == "true" || truth == "false") {
    for (size_t id = 0; id < names_.size(); ++id)
      if (lower(trimmed(names_[id])) == truth) return int64_t(id);
    return std::nullopt;
  }
  const auto number = whole_number(label);
  if (!number) return std::nullopt;
  bool numbered_names = false;
  for (size_t id = 0; id < names_.size(); ++id) {
    const auto name = whole_number(names_[id]);
    if (!name) continue;
    numbered_names = true;
    if (*name == *number) return int64_t(id);
  }
  // Names that are numbers say what the numbers mean; others leave them to count the classes.
  if (numbered_names || *number < 0 || *number >= size()) return std::nullopt;
  return number;
}

std::string LabelMap::known() const {
  if (!has_names_) return size() == 1 ? "0 only" : "0 to " + std::to_string(size() - 1);
  return join_names(names_, 10);
}

int64_t LabelMap::class_id(const std::string& label,
                           const std::function<std::string()>& describe) const {
  if (const auto id = find(label)) return *id;
  const std::string place = describe() + " has the label " + in_quotes(label);
  const auto number = label_number(label);
  if (!has_names_ && !number)
    throw Error(
        "data.labels",
        place + ", and the " + std::to_string(size()) + " classes of the model have no names",
        "labels " + known() + ", or names in id2label of its config.json");
  if (number && !whole_number(label))
    throw Error("data.labels",
                place + ", which has a fraction, and the model has " + std::to_string(size()) +
                    " classes: " + known(),
                "a model with one label (a regression)");
  std::string hint;
  for (const auto& name : names_)
    if (lower(name) == lower(label)) hint = "\"" + name + "\"";
  if (hint.empty() && has_names_)
    if (const std::string nearest = nearest_name(label, names_); !nearest.empty())
      hint = "\"" + nearest + "\"";
  throw Error("data.labels", place + ", for which the model has no place; it knows " + known(),
              hint.empty() ? "rows with these labels only, or a base model, which gets a head "
                             "for all labels of the training file"
                           : hint);
}

std::vector<int64_t> LabelMap::class_ids(const TokenDataset& data) const {
  std::vector<int64_t> ids;
  for (size_t label = 0; label < data.label_names.size(); ++label)
    ids.push_back(class_id(data.label_names[label], [&] { return data.describe_label(label); }));
  return ids;
}

std::vector<int64_t> LabelMap::class_ids(const TextDataset& data) const {
  std::vector<int64_t> ids;
  ids.reserve(data.labels.size());
  std::unordered_map<std::string_view, int64_t> known_ids;
  for (size_t row = 0; row < data.labels.size(); ++row) {
    const std::string& label = data.labels[row];
    if (const auto at = known_ids.find(label); at != known_ids.end()) {
      ids.push_back(at->second);
      continue;
    }
    const int64_t id = class_id(label, [&] { return data.describe(int64_t(row)); });
    known_ids.emplace(label, id);
    ids.push_back(id);
  }
  return ids;
}

std::vector<double> LabelMap::values(const TextDataset& data) const {
  std::vector<double> numbers;
  numbers.reserve(data.labels.size());
  for (size_t row = 0; row < data.labels.size(); ++row) {
    const auto number = label_number(data.labels[row]);
    if (!number)
      throw Error("data.labels",
                  data.describe(int64_t(row)) + " has the label " + in_quotes(data.labels[row]) +
                      ", which is no number, and the model is a regression",
                  "numbers as labels");
    numbers.push_back(*number);
  }
  return numbers;
}

void LabelMap::set_names(std::vector<std::string> names) {
  names_ = std::move(names);
  has_names_ = true;
}

void LabelMap::write(Json& config, bool tokens) const {
  Json id2label = Json::object(), label2id = Json::object();
  std::map<std::string, int64_t> by_name;
  for (int64_t id = 0; id < size(); ++id) {
    id2label[std::to_string(id)] = name(id);
    by_name.try_emplace(name(id), id);
  }
  for (const auto& [name, id] : by_name) label2id[name] = id;
  config.erase("num_labels");
  config.erase("_num_labels");
  config["id2label"] = std::move(id2label);
  config["label2id"] = std::move(label2id);
  if (tokens)
    config.erase("problem_type");
  else
    config["problem_type"] = regression_ ? "regression" : "single_label_classification";
}

}  // namespace yoke
