// The two streams of the program. Results and JSON events go to standard output, one write a line;
// log lines, the progress bar and errors go to standard error. Any thread may call, the lines do
// not mix.
#pragma once

#include <yoke/core/json.h>

#include <chrono>
#include <mutex>
#include <string>

namespace yoke::cli {

// Standard output is gone (a pipe whose reader has ended) and there is nothing else to do.
struct OutputClosed {};

class Console {
 public:
  // quiet: no log lines and no bar. json: standard output is for a program.
  Console(bool json, bool quiet);
  ~Console();
  Console(const Console&) = delete;
  Console& operator=(const Console&) = delete;

  bool json() const { return json_; }

  // A line on standard output. False when standard output can no longer be written to, then or
  // before: the reader of a pipe has gone, or the disk is full (see output_error).
  bool result(const std::string& line);
  bool event(const Json& object);

  // The errno that ended standard output, or 0.
  int output_error() const;

  void log(const std::string& line);
  void warning(const std::string& line);
  void error(const std::string& line);

  // Whether there is a terminal for a bar.
  bool has_bar() const { return bar_; }
  // Redraws the bar, at most ten times a second unless `now`; cut to the width of the terminal.
  void show_bar(const std::string& text, bool now = false);
  void remove_bar();

 private:
  void write_error_line(const std::string& line);
  void erase_bar();

  mutable std::mutex mutex_;
  const bool json_;
  const bool quiet_;
  bool bar_ = false;
  bool output_is_terminal_ = false;
  int output_error_ = 0;
  std::string bar_text_;  // what stands on the terminal's last line
  std::chrono::steady_clock::time_point drawn_;
};

// One printable line: line breaks become spaces, other control characters \xNN (a file's content
// in a message must not steer the terminal), and the stack frames that LibTorch appends to its
// messages are cut.
std::string one_line(const std::string& text);

}  // namespace yoke::cli
