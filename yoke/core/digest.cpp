#include "yoke/core/digest.h"

#include <cstdio>
#include <cstring>

#include "yoke/core/random.h"

namespace yoke {

void Digest::add(const void* data, size_t bytes) {
  const auto* at = static_cast<const unsigned char*>(data);
  size_t left = bytes;
  // Four independent lanes, since each step waits for the one before it.
  for (; left >= 32; left -= 32, at += 32)
    for (size_t lane = 0; lane < 4; ++lane) {
      uint64_t word;
      std::memcpy(&word, at + 8 * lane, 8);
      lanes_[lane] = mix64(lanes_[lane] ^ word);
    }
  for (size_t lane = 0; left > 0; ++lane) {
    uint64_t word = 0;
    const size_t size = left < 8 ? left : 8;
    std::memcpy(&word, at, size);
    lanes_[lane] = mix64(lanes_[lane] ^ word);
    at += size;
    left -= size;
  }
  lanes_[3] = mix64(lanes_[3] ^ uint64_t(bytes) ^ (uint64_t{1} << 63));
}

std::string Digest::hex() const {
  const uint64_t high = mix64(mix64(lanes_[0]) ^ lanes_[1]) ^ lanes_[2];
  const uint64_t low = mix64(mix64(lanes_[2]) ^ lanes_[3]) ^ lanes_[0];
  char text[33];
  std::snprintf(text, sizeof text, "%016llx%016llx", static_cast<unsigned long long>(mix64(high)),
                static_cast<unsigned long long>(mix64(low)));
  return text;
}

}  // namespace yoke
