// A folder of small files that is gone with the test, the log lines of a call, and Python.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "yoke/core/error.h"
#include "yoke/core/log.h"

namespace yoke::test {

namespace fs = std::filesystem;

class TempFiles {
 public:
  TempFiles() {
    static int count = 0;
    folder_ = fs::temp_directory_path() /
              ("yoke-data-" + std::to_string(::getpid()) + "-" + std::to_string(count++));
    fs::create_directories(folder_);
  }
  ~TempFiles() {
    std::error_code ignored;
    fs::remove_all(folder_, ignored);
  }
  TempFiles(const TempFiles&) = delete;
  TempFiles& operator=(const TempFiles&) = delete;
  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  std::string write(const std::string& name, const std::string& bytes) const {
    std::ofstream(path(name), std::ios::binary) << bytes;
    return path(name);
  }

 private:
  fs::path folder_;
};

// Lines that are logged while it lives.
class LogLines {
 public:
  LogLines() {
    former_ = set_log_sink([this](LogLevel, const std::string& line) { lines.push_back(line); });
  }
  ~LogLines() { set_log_sink(former_); }
  std::string all() const {
    std::string text;
    for (const auto& line : lines) text += line + "\n";
    return text;
  }
  std::vector<std::string> lines;

 private:
  LogSink former_;
};

// what() of the Error that a call throws; "" and a failure when it throws none.
template <class Call>
std::string error_of(const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  ADD_FAILURE() << "no error";
  return "";
}

// Each part must occur in the text.
inline void expect_has(const std::string& text, const std::vector<std::string>& parts) {
  for (const auto& part : parts)
    EXPECT_NE(text.find(part), std::string::npos) << "\"" << part << "\" is not in: " << text;
}

inline bool run_peer(const std::string& arguments) {
  return std::system(
             (YOKE_PYTHON " " YOKE_SOURCE_DIR "/tests/data/table_peer.py " + arguments).c_str()) ==
         0;
}

inline bool soak() { return std::getenv("YOKE_SOAK") != nullptr; }

}  // namespace yoke::test

#define YOKE_NEEDS_PYTHON() \
  if (!std::filesystem::exists(YOKE_PYTHON)) GTEST_SKIP() << "needs Python"
