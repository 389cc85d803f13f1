// Precision, recall and F1 of named entities, counted as seqeval does by default (the rule of
// conll's evaluation: a sequence that begins with I-, or an I- of another type, begins an entity).
//
//   EntityScores scores(labels.names());
//   scores.add_row({"B-PER", "I-PER"} as ids, predicted ids);   // rows in any order
//   scores.f1();
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace yoke {

class EntityScores {
 public:
  explicit EntityScores(const std::vector<std::string>& names);
  // Whether names are "O" and such as "B-PER" (B, I, E or S): else there are no entities to count.
  static bool fit(const std::vector<std::string>& names);

  // The classes of a row's words, true and predicted; equally many.
  void add_row(const std::vector<int64_t>& truth, const std::vector<int64_t>& predicted);

  // Over all entities of all types; 0 where nothing was to be divided by.
  double precision() const { return ratio(right_, predicted_); }
  double recall() const { return ratio(right_, true_); }
  double f1() const;

 private:
  struct Tag {
    char kind = 'O';   // B, I, E, S or O
    int64_t type = 0;  // the same number for the same type; O has the empty type, 0
  };
  struct Entity {
    int64_t type, begin, end;
    bool operator==(const Entity&) const = default;
  };
  std::vector<Entity> entities(const std::vector<int64_t>& row) const;
  static double ratio(int64_t a, int64_t b) { return b ? double(a) / double(b) : 0; }

  std::vector<Tag> tags_;  // by class
  int64_t right_ = 0, predicted_ = 0, true_ = 0;
};

}  // namespace yoke
