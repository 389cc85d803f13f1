// How fast the devices of a run compute, measured as it goes on, for dealing tokens by it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace yoke {

class Balance {
 public:
  // `by_speed`: speeds() follow the measurements; else they only lead to advice.
  Balance(std::vector<std::string> devices, bool by_speed);

  // After a step: what each device computed, and how long it took.
  void add(const std::vector<int64_t>& tokens, const std::vector<double>& seconds);

  // For deal(); empty while all count the same.
  std::vector<double> speeds() const;

  // Once, when devices have differed by more than 20 % for a while: a line for the log; else empty.
  std::string advice();

 private:
  std::vector<std::string> devices_;
  const bool by_speed_;
  std::vector<double> tokens_, seconds_;  // fading sums
  int64_t steps_ = 0;
  bool advised_ = false;
};

}  // namespace yoke
