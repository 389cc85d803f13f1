// The program `yoke`: parses the command line, runs one sub-command, turns every end into an exit
// status and at most one error line.
#include <fmt/format.h>
#include <malloc.h>
#include <unistd.h>
#include <yoke/core/error.h>
#include <yoke/core/log.h>

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <new>

#include "cli/commands.h"

namespace yoke::cli {
namespace {

// The first exception that nothing caught, from whatever thread: a fault of yoke, but one line.
[[noreturn]] void on_terminate() {
  std::string what = "unknown";
  if (const auto current = std::current_exception()) {
    try {
      std::rethrow_exception(current);
    } catch (const std::exception& e) {
      what = e.what();
    } catch (...) {
    }
  }
  const std::string line =
      "yoke: error: internal error, please report it: " + one_line(what) + "\n";
  if (::write(STDERR_FILENO, line.data(), line.size()) < 0) std::_Exit(exit_failed);
  std::_Exit(exit_failed);
}

bool wants_json(const Message&) { return false; }
bool wants_quiet(const Message&) { return false; }
template <class T>
bool wants_json(const T& command) {
  return command.json;
}
template <class T>
bool wants_quiet(const T&) {
  return false;
}
bool wants_quiet(const TrainCommand& command) { return command.quiet; }

int run(const Message& message, Console& console) {
  console.result(message.text.substr(0, message.text.find_last_not_of('\n') + 1));
  return exit_done;
}

// Standard output that has gone ends a run without a word, as with other programs in a pipe;
// what could not be written for another reason (a full disk) is a failure.
int after(int status, const Console& console) {
  const int code = console.output_error();
  if (status != exit_done || code == 0 || code == EPIPE) return status;
  throw Error("output", fmt::format("standard output: cannot write ({})", std::strerror(code)),
              code == ENOSPC ? "free space on that disk, or another place" : "");
}

int run_command(const Command& command) {
  return std::visit(
      [](const auto& chosen) {
        Console console(wants_json(chosen), wants_quiet(chosen));
        set_log_sink([&console](LogLevel level, const std::string& line) {
          level == LogLevel::warning ? console.warning(line) : console.log(line);
        });
        struct Unset {
          ~Unset() { set_log_sink({}); }
        } unset;
        try {
          return after(run(chosen, console), console);
        } catch (const OutputClosed&) {
          return after(exit_done, console);
        }
      },
      command);
}

int fail(const std::string& line, int status) {
  Console(false, false).error(line);
  return status;
}

int program(const std::vector<std::string>& arguments) {
  try {
    return run_command(parse(arguments));
  } catch (const UsageError& e) {
    return fail(e.what(), exit_usage);
  } catch (const std::bad_alloc&) {
    return fail("out of memory. Try: a smaller --batch-size", exit_failed);
  } catch (const std::exception& e) {
    return fail(e.what(), exit_failed);
  } catch (...) {
    return fail("unknown failure", exit_failed);
  }
}

}  // namespace
}  // namespace yoke::cli

int main(int argc, char** argv) {
  std::set_terminate(yoke::cli::on_terminate);
#ifdef __GLIBC__
  // A training step frees what the next one allocates: keep it, or the kernel zeroes it every time.
  mallopt(M_MMAP_THRESHOLD, 32 << 20);
  mallopt(M_TRIM_THRESHOLD, 512 << 20);
#endif
  std::signal(SIGPIPE, SIG_IGN);  // writing to a pipe without a reader is an error to look at
  return yoke::cli::program({argv + std::min(argc, 1), argv + argc});
}
