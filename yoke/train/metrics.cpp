#include "yoke/train/metrics.h"

#include <algorithm>
#include <cmath>

namespace yoke {
namespace {

// log(sum(exp(x))), shifted by the largest.
double log_sum_exp(const std::vector<float>& x) {
  const double top = *std::max_element(x.begin(), x.end());
  double sum = 0;
  for (float value : x) sum += std::exp(double(value) - top);
  return top + std::log(sum);
}

}  // namespace

std::vector<double> softmax(const std::vector<float>& logits) {
  const double top = *std::max_element(logits.begin(), logits.end());
  std::vector<double> result;
  double sum = 0;
  for (float value : logits) sum += result.emplace_back(std::exp(double(value) - top));
  for (double& value : result) value /= sum;
  return result;
}

void Scores::add_class(const std::vector<float>& logits, int64_t label) {
  ++targets_;
  loss_ += log_sum_exp(logits) - double(logits[size_t(label)]);
  right_ += std::max_element(logits.begin(), logits.end()) - logits.begin() == label;
}

void Scores::add_value(float prediction, double value) {
  ++targets_;
  const double error = double(prediction) - value;
  loss_ += error * error;
}

}  // namespace yoke
