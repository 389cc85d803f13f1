// Fingerprints: the same for the same bytes, another for any change of them.
#include "yoke/core/digest.h"

#include <gtest/gtest.h>

#include <set>

namespace yoke {
namespace {

std::string digest_of(const std::vector<std::string>& parts) {
  Digest digest;
  for (const auto& part : parts) digest.add(part);
  return digest.hex();
}

TEST(Digest, every_change_of_a_byte_a_length_or_a_border_shows) {
  std::set<std::string> seen;
  size_t made = 0;
  const auto add = [&](const std::vector<std::string>& parts) {
    seen.insert(digest_of(parts));
    ++made;
  };
  for (size_t length : {0, 1, 7, 8, 9, 31, 32, 33, 64, 100}) {
    const std::string zeros(length, '\0');
    add({zeros});
    for (size_t at = 0; at < length; ++at)
      for (const char value : {'\1', '\x80'}) {
        auto changed = zeros;
        changed[at] = value;
        add({changed});
      }
  }
  add({"ab", "c"});
  add({"a", "bc"});
  add({"abc", ""});
  EXPECT_EQ(seen.size(), made);
  EXPECT_EQ(digest_of({"ab", "c"}), digest_of({"ab", "c"}));
  EXPECT_EQ(digest_of({"abc"}).size(), 32u);
}

}  // namespace
}  // namespace yoke
