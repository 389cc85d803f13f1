#include "yoke/train/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "yoke/core/error.h"
#include "yoke/core/suggest.h"

namespace yoke {

Schedule::Schedule(const std::string& name, double learning_rate, double warmup,
                   int64_t total_steps)
    : learning_rate_(learning_rate), total_(total_steps) {
  if (name == "linear") {
    kind_ = Kind::linear;
  } else if (name == "cosine") {
    kind_ = Kind::cosine;
  } else if (name == "constant" || name == "constant_with_warmup") {
    kind_ = Kind::constant;
  } else {
    const std::vector<std::string> known{"linear", "cosine", "constant", "constant_with_warmup"};
    const auto nearest = nearest_name(name, known);
    throw Error("train.schedule", "unknown learning-rate schedule \"" + name + "\"",
                nearest.empty() ? "one of: " + join_names(known) : nearest);
  }
  if (!(warmup >= 0)) throw Error("train.schedule", "warmup_steps is negative");
  if (!(learning_rate >= 0) || !std::isfinite(learning_rate))
    throw Error("train.schedule", "the learning rate must be a finite number, 0 or above");
  warmup_ = name == "constant" ? 0
            : warmup < 1       ? int64_t(std::ceil(warmup * double(total_steps)))
                               : int64_t(warmup);
}

double Schedule::at(int64_t step) const {
  if (step < warmup_) return learning_rate_ * double(step) / double(std::max<int64_t>(1, warmup_));
  const double span = double(std::max<int64_t>(1, total_ - warmup_));
  switch (kind_) {
    case Kind::linear:
      return learning_rate_ * std::max(0.0, double(total_ - step) / span);
    case Kind::cosine:
      return learning_rate_ *
             std::max(0.0, 0.5 * (1 + std::cos(std::numbers::pi * double(step - warmup_) / span)));
    case Kind::constant:
      break;
  }
  return learning_rate_;
}

}  // namespace yoke
