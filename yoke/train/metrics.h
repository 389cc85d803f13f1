// Metrics from counts and sums in double precision, one target (a row, or a token) after another in
// input order, so that they do not depend on how the rows were divided.
#pragma once

#include <cstdint>
#include <vector>

namespace yoke {

// Softmax of one row's logits in double.
std::vector<double> softmax(const std::vector<float>& logits);

class Scores {
 public:
  // Classification: cross entropy of the target, and whether the largest logit (the first of
  // equals) is the label's.
  void add_class(const std::vector<float>& logits, int64_t label);
  // Regression: the squared error.
  void add_value(float prediction, double value);

  int64_t targets() const { return targets_; }
  double loss() const { return targets_ ? loss_ / double(targets_) : 0; }
  double accuracy() const { return targets_ ? double(right_) / double(targets_) : 0; }

 private:
  int64_t targets_ = 0;
  int64_t right_ = 0;
  double loss_ = 0;
};

}  // namespace yoke
