// Metrics from counts and sums in double precision, one row after another in input order, so that
// they do not depend on how the rows were divided.
#pragma once

#include <cstdint>
#include <vector>

namespace yoke {

// Softmax of one row's logits in double.
std::vector<double> softmax(const std::vector<float>& logits);

class Scores {
 public:
  // Classification: cross entropy of the row, and whether the largest logit (the first of equals)
  // is the label's.
  void add_class(const std::vector<float>& logits, int64_t label);
  // Regression: the squared error.
  void add_value(float prediction, double value);

  int64_t rows() const { return rows_; }
  double loss() const { return rows_ ? loss_ / double(rows_) : 0; }
  double accuracy() const { return rows_ ? double(right_) / double(rows_) : 0; }

 private:
  int64_t rows_ = 0;
  int64_t right_ = 0;
  double loss_ = 0;
};

}  // namespace yoke
