// A fingerprint of bytes: 128 bits that change when the bytes do. Fast, the same on every machine,
// and no protection against somebody who forges it.
//
//   Digest digest;
//   digest.add("name");
//   digest.add(data, size);
//   digest.hex();                    // 32 hexadecimal digits
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace yoke {

class Digest {
 public:
  // What is added is kept apart from what comes before and after by its length.
  void add(const void* data, size_t bytes);
  void add(std::string_view text) { add(text.data(), text.size()); }
  template <class T>
  void add(const std::vector<T>& values) {
    add(values.data(), values.size() * sizeof(T));
  }
  std::string hex() const;

 private:
  std::array<uint64_t, 4> lanes_{1, 2, 3, 4};
};

}  // namespace yoke
