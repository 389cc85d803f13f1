#include "yoke/core/random.h"

#include <cmath>
#include <numbers>
#include <numeric>
#include <utility>

namespace yoke {

uint32_t PhiloxStream::next_u32() {
  if (left_ == 0) {
    words_ = philox({uint32_t(counter_), uint32_t(counter_ >> 32), 0, 0}, key_);
    ++counter_;
    left_ = 4;
  }
  return words_[4 - left_--];
}

uint64_t PhiloxStream::below(uint64_t n) {
  unsigned __int128 product = static_cast<unsigned __int128>(next_u64()) * n;
  if (uint64_t(product) < n) {
    const uint64_t threshold = -n % n;
    while (uint64_t(product) < threshold) product = static_cast<unsigned __int128>(next_u64()) * n;
  }
  return uint64_t(product >> 64);
}

double PhiloxStream::normal() {
  if (has_spare_) {
    has_spare_ = false;
    return spare_;
  }
  const double u = (double(next_u64() >> 11) + 1) * 0x1p-53;  // (0, 1]
  const double v = double(next_u64() >> 11) * 0x1p-53;        // [0, 1)
  const double radius = std::sqrt(-2 * std::log(u));
  const double angle = 2 * std::numbers::pi * v;
  spare_ = radius * std::sin(angle);
  has_spare_ = true;
  return radius * std::cos(angle);
}

std::vector<int64_t> shuffled_order(int64_t n, uint64_t seed, uint64_t epoch) {
  std::vector<int64_t> order(n);
  std::iota(order.begin(), order.end(), int64_t{0});
  PhiloxStream stream(seed, mix64(epoch) ^ 0x5348554646ull);
  for (int64_t i = n - 1; i > 0; --i) std::swap(order[i], order[stream.below(i + 1)]);
  return order;
}

}  // namespace yoke
