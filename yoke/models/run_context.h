// What a forward pass needs to know beside its batch: the counters that key dropout.
#pragma once

#include <cstdint>

namespace yoke {

struct RunContext {
  uint64_t seed = 0;
  int64_t step = 0;  // optimiser steps before this one
};

}  // namespace yoke
