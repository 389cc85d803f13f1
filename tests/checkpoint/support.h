// What the checkpoint tests share: a folder of their own, the Python peer, bytes of a tensor.
#pragma once

#include <ATen/core/Tensor.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <cstdio>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>

#include "yoke/core/error.h"
#include "yoke/core/file.h"

namespace yoke {

class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "yoke-ckpt-XXXXXX").string();
    if (!::mkdtemp(name.data())) throw Error("test", "no temporary folder");
    path_ = name;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

// The last line that peer.py printed; empty when Python or a package is not there.
inline std::string run_peer(const std::string& verb, const std::filesystem::path& folder) {
  if (!std::filesystem::exists(YOKE_PYTHON)) return "";
  const std::string command = std::string(YOKE_PYTHON) + " " + YOKE_SOURCE_DIR +
                              "/tests/checkpoint/peer.py " + verb + " " + folder.string() + " 2>&1";
  FILE* pipe = ::popen(command.c_str(), "r");
  std::string output;
  char buffer[4096];
  while (const size_t n = std::fread(buffer, 1, sizeof buffer, pipe)) output.append(buffer, n);
  const int status = ::pclose(pipe);
  if (output.find("ModuleNotFoundError") != std::string::npos) return "";
  if (status != 0) return output;
  while (!output.empty() && output.back() == '\n') output.pop_back();
  return output.substr(output.rfind('\n') + 1);
}

inline std::string hex(const at::Tensor& tensor) {
  const at::Tensor bytes = tensor.detach().cpu().contiguous();
  static constexpr char digits[] = "0123456789abcdef";
  std::string text;
  const auto* from = static_cast<const unsigned char*>(bytes.const_data_ptr());
  for (size_t i = 0; i < bytes.nbytes(); ++i) {
    text += digits[from[i] >> 4];
    text += digits[from[i] & 15];
  }
  return text;
}

// what() of the Error that `call` throws, "" when it throws none.
template <typename Call>
std::string error_of(Call&& call) {
  try {
    std::forward<Call>(call)();
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

inline testing::AssertionResult has(const std::string& text, std::string_view part) {
  if (text.find(part) != std::string::npos) return testing::AssertionSuccess();
  return testing::AssertionFailure() << "\"" << text << "\" does not say \"" << part << "\"";
}

}  // namespace yoke
