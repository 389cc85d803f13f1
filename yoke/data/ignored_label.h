// The label that is no target, everywhere: in files, in packed batches, in losses, as in PyTorch.
#pragma once

#include <cstdint>

namespace yoke {

inline constexpr int64_t ignored_label = -100;

}  // namespace yoke
