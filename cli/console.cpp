#include "cli/console.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <string_view>

namespace yoke::cli {
namespace {

constexpr auto redraw_every = std::chrono::milliseconds(100);

// All of `bytes`, also into a pipe that somebody made non-blocking. 0 or the errno.
int write_all(int descriptor, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(descriptor, bytes.data(), bytes.size());
    if (n >= 0) {
      bytes.remove_prefix(size_t(n));
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      pollfd wait{descriptor, POLLOUT, 0};
      ::poll(&wait, 1, -1);
    } else if (errno != EINTR) {
      return errno;
    }
  }
  return 0;
}

size_t terminal_width() {
  winsize size{};
  if (::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  return 80;
}

bool is_terminal(int descriptor) {
  const char* kind = std::getenv("TERM");
  return ::isatty(descriptor) == 1 && (kind == nullptr || std::string_view(kind) != "dumb");
}

}  // namespace

Console::Console(bool json, bool quiet) : json_(json), quiet_(quiet) {
  output_is_terminal_ = ::isatty(STDOUT_FILENO) == 1;
  // JSON lines and a bar on one screen would be neither.
  bar_ = !quiet && is_terminal(STDERR_FILENO) && !(json && output_is_terminal_);
}

Console::~Console() { remove_bar(); }

bool Console::result(const std::string& line) {
  std::lock_guard lock(mutex_);
  if (output_error_ != 0) return false;
  if (output_is_terminal_) erase_bar();
  output_error_ = write_all(STDOUT_FILENO, line + "\n");
  return output_error_ == 0;
}

bool Console::event(const Json& object) {
  // A label that is not valid UTF-8 must not end a run.
  return result(object.dump(-1, ' ', false, Json::error_handler_t::replace));
}

int Console::output_error() const {
  std::lock_guard lock(mutex_);
  return output_error_;
}

void Console::log(const std::string& line) {
  if (!quiet_) write_error_line(one_line(line));
}

void Console::warning(const std::string& line) {
  if (!quiet_) write_error_line("yoke: warning: " + one_line(line));
}

void Console::error(const std::string& line) { write_error_line("yoke: error: " + one_line(line)); }

void Console::write_error_line(const std::string& line) {
  std::lock_guard lock(mutex_);
  const std::string bar = bar_text_;
  erase_bar();
  write_all(STDERR_FILENO, line + "\n" + bar);
  bar_text_ = bar;
}

void Console::show_bar(const std::string& text, bool now) {
  std::lock_guard lock(mutex_);
  const auto time = std::chrono::steady_clock::now();
  if (!bar_ || (!now && !bar_text_.empty() && time - drawn_ < redraw_every)) return;
  drawn_ = time;
  // The last column stays free: some terminals wrap there.
  const std::string cut = text.substr(0, terminal_width() - 1);
  write_all(STDERR_FILENO, "\r\x1b[K" + cut);
  bar_text_ = cut;
}

void Console::remove_bar() {
  std::lock_guard lock(mutex_);
  erase_bar();
}

void Console::erase_bar() {
  if (bar_text_.empty()) return;
  write_all(STDERR_FILENO, "\r\x1b[K");
  bar_text_.clear();
}

std::string one_line(const std::string& text) {
  // c10::Error: the message, then "Exception raised from … (most recent call first):" and frames.
  std::string_view body = text;
  for (const char* tail : {"\nException raised from ", "\nframe #", "\nC++ CapturedTraceback"})
    body = body.substr(0, body.find(tail));
  std::string out;
  for (const char c : body) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '\n' || c == '\r' || c == '\t') {
      if (!out.empty() && out.back() != ' ') out += ' ';
    } else if (byte < 0x20 || byte == 0x7F) {
      out += fmt::format("\\x{:02x}", byte);
    } else {
      out += c;
    }
  }
  while (!out.empty() && out.back() == ' ') out.pop_back();
  return out;
}

}  // namespace yoke::cli
