// Which class a label in a file means.
//
//   const LabelMap labels = LabelMap::from_labels(train);      // a head that is made for this file
//   const LabelMap labels = LabelMap::from_config(config);     // a head that is there
//   std::vector<int64_t> classes = labels.class_ids(train);
//
// Integer labels that are exactly 0..K-1 are the classes themselves and have no names; any other
// set (1..5, -1 and 1, strings) becomes names, sorted by number or code point. Numbers with a
// fraction make a regression. Later files are matched by name, never by rank. Safe from many
// threads once made.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "yoke/core/json.h"

namespace yoke {

struct TextDataset;
struct TokenDataset;

class LabelMap {
 public:
  LabelMap() = default;

  // From the labels of a training file, as they stand there. Numbers with fractions among words are
  // an Error("data.labels") that names a row of each. Warns of a column that is hardly one of
  // classes.
  static LabelMap from_labels(const TextDataset& data);
  static LabelMap from_labels(const std::vector<std::string>& labels);
  // Of words: never a regression.
  static LabelMap from_labels(const TokenDataset& data);
  // From config.json: id2label, else label2id, else num_labels, else two. One label and
  // problem_type "regression" (or none) is a regression.
  static LabelMap from_config(const Json& config);

  // Regression: one output, labels are numbers.
  bool regression() const { return regression_; }
  int64_t size() const { return int64_t(names_.size()); }
  // Whether the names say something: transformers' defaults (LABEL_0, …) do not.
  bool has_names() const { return has_names_; }
  const std::string& name(int64_t id) const { return names_[size_t(id)]; }
  const std::vector<std::string>& names() const { return names_; }

  // The class that a label means: by name, also when numbers ("1.0", "+1") or truth values ("True")
  // are written otherwise; else a whole number 0..K-1 is the class itself, unless names are
  // numbers. Nothing when unknown.
  std::optional<int64_t> find(std::string_view label) const;
  // What labels there are, for errors: "0 to 2" or "negative, positive".
  std::string known() const;

  // The classes, or for a regression the values, of all rows. Throws Error("data.labels") with row,
  // label and what the model knows.
  std::vector<int64_t> class_ids(const TextDataset& data) const;
  std::vector<double> values(const TextDataset& data) const;
  // The class of each of data.label_names; errors tell the first word that has the label.
  std::vector<int64_t> class_ids(const TokenDataset& data) const;

  // Gives names to classes that had none.
  void set_names(std::vector<std::string> names);

  // Writes id2label, label2id and problem_type as transformers does (which leaves the first two out
  // for two classes without names; here they are always there), and takes out num_labels, which
  // follows from them. `tokens`: for the labels of words, which have no problem_type.
  void write(Json& config, bool tokens = false) const;

 private:
  // Of different labels with the row (or word) of each; `count` labels stand in the file.
  static LabelMap from_distinct(const std::map<std::string_view, size_t>& distinct, size_t count,
                                const std::string& file, const std::string& unit,
                                const std::function<std::string(size_t)>& show);
  int64_t class_id(const std::string& label, const std::function<std::string()>& place) const;

  std::vector<std::string> names_;
  bool has_names_ = false;
  bool regression_ = false;
};

// A label as a number, nothing when it is none: the whole text must be one.
std::optional<double> label_number(std::string_view label);

}  // namespace yoke
