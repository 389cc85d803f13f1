// Counter-based random numbers: Philox4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel random
// numbers: as easy as 1, 2, 3", SC 2011). The same (key, counter) gives the same four words on
// every device, thread and run; nothing is stored between calls.
//
//   PhiloxKey key = philox_key(seed, layer);
//   auto words = philox({step, slot, position, block}, key);     // std::array<uint32_t, 4>
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <vector>

namespace yoke {

using PhiloxCounter = std::array<uint32_t, 4>;

struct PhiloxKey {
  uint32_t k0 = 0;
  uint32_t k1 = 0;
};

inline constexpr uint32_t philox_m0 = 0xD2511F53u;
inline constexpr uint32_t philox_m1 = 0xCD9E8D57u;
inline constexpr uint32_t philox_w0 = 0x9E3779B9u;
inline constexpr uint32_t philox_w1 = 0xBB67AE85u;

constexpr std::array<uint32_t, 4> philox(PhiloxCounter c, PhiloxKey k) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = uint64_t{philox_m0} * c[0];
    const uint64_t p1 = uint64_t{philox_m1} * c[2];
    c = {uint32_t(p1 >> 32) ^ c[1] ^ k.k0, uint32_t(p1), uint32_t(p0 >> 32) ^ c[3] ^ k.k1,
         uint32_t(p0)};
    k.k0 += philox_w0;
    k.k1 += philox_w1;
  }
  return c;
}

// Mixes 64 bits (the finaliser of SplitMix64, Steele, Lea, Flood 2014).
constexpr uint64_t mix64(uint64_t x) {
  x += 0x9E3779B97F4A7C15ull;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
  return x ^ (x >> 31);
}

// One stream per (seed, stream number); for dropout the stream is the layer.
constexpr PhiloxKey philox_key(uint64_t seed, uint64_t stream) {
  const uint64_t k = mix64(mix64(seed) ^ (stream * 0x9E3779B97F4A7C15ull));
  return {uint32_t(k), uint32_t(k >> 32)};
}

// A key in one integer, as operators take it, and the way back.
constexpr int64_t key_bits(PhiloxKey key) { return int64_t(uint64_t{key.k1} << 32 | key.k0); }
constexpr PhiloxKey key_of(int64_t bits) {
  return {uint32_t(uint64_t(bits)), uint32_t(uint64_t(bits) >> 32)};
}

// The number below which a word drops its element, for a probability in [0, 1).
inline uint32_t drop_threshold(double p) {
  return uint32_t(std::min(std::llround(p * 4294967296.0), 4294967295ll));
}

// A sequential generator over one stream, for shuffles and initial weights on the host.
class PhiloxStream {
 public:
  PhiloxStream(uint64_t seed, uint64_t stream) : key_(philox_key(seed, stream)) {}
  uint32_t next_u32();
  uint64_t next_u64() { return uint64_t{next_u32()} << 32 | next_u32(); }
  // Uniform in [0, n), unbiased (Lemire 2019); n >= 1.
  uint64_t below(uint64_t n);
  // Standard normal, Box-Muller in double.
  double normal();

 private:
  PhiloxKey key_;
  uint64_t counter_ = 0;
  std::array<uint32_t, 4> words_{};
  int left_ = 0;
  double spare_ = 0;
  bool has_spare_ = false;
};

// 0..n-1 in an order that depends on (seed, epoch) only (Fisher-Yates over one stream).
std::vector<int64_t> shuffled_order(int64_t n, uint64_t seed, uint64_t epoch);

}  // namespace yoke
