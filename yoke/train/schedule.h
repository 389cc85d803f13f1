// Learning-rate schedules by optimiser step, as transformers' optimization.py defines them.
#pragma once

#include <cstdint>
#include <string>

namespace yoke {

class Schedule {
 public:
  // name: linear, cosine, constant, constant_with_warmup. warmup: steps, or below 1 a share of all
  // steps (rounded up). Throws Error for an unknown name.
  Schedule(const std::string& name, double learning_rate, double warmup, int64_t total_steps);
  // The learning rate of step 0, 1, …
  double at(int64_t step) const;

 private:
  enum class Kind { linear, cosine, constant };
  Kind kind_;
  double learning_rate_;
  int64_t warmup_;
  int64_t total_;
};

}  // namespace yoke
