#include "cli/signals.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <system_error>
#include <utility>

namespace yoke::cli {
namespace {

constexpr int watched[] = {SIGINT, SIGTERM};
constexpr int repeat_milliseconds = 100;

// What a handler may touch. One StopOnSignal lives at a time.
std::atomic<int> caught_signal{0};
std::atomic<int> wake_end{-1};
struct sigaction former[2];
bool installed[2];

static_assert(std::atomic<int>::is_always_lock_free);

extern "C" void yoke_cli_on_signal(int number) {
  const int saved_errno = errno;
  if (caught_signal.exchange(number) != 0) {
    std::signal(number, SIG_DFL);
    std::raise(number);
  }
  const char byte = 's';
  if (::write(wake_end.load(), &byte, 1) < 0) {
    // The pipe is full: the watcher is awake already.
  }
  errno = saved_errno;
}

}  // namespace

StopOnSignal::StopOnSignal(std::function<void(int)> stop) {
  if (::pipe2(ends_, O_CLOEXEC | O_NONBLOCK) != 0)
    throw std::system_error(errno, std::generic_category(), "cannot make a pipe");
  caught_signal = 0;
  wake_end = ends_[1];
  thread_ = std::thread([this, stop = std::move(stop)] { watch(stop); });
  for (size_t i = 0; i < std::size(watched); ++i) {
    ::sigaction(watched[i], nullptr, &former[i]);
    installed[i] = former[i].sa_handler != SIG_IGN;
    if (!installed[i]) continue;
    struct sigaction action {};
    action.sa_handler = yoke_cli_on_signal;
    action.sa_flags = SA_RESTART;
    sigemptyset(&action.sa_mask);
    ::sigaction(watched[i], &action, nullptr);
  }
}

StopOnSignal::~StopOnSignal() {
  for (size_t i = 0; i < std::size(watched); ++i)
    if (installed[i]) ::sigaction(watched[i], &former[i], nullptr);
  const char byte = 'q';
  while (::write(ends_[1], &byte, 1) < 0 && errno == EINTR) {
  }
  thread_.join();
  ::close(ends_[0]);
  ::close(ends_[1]);
}

int StopOnSignal::caught() const { return caught_signal; }

void StopOnSignal::watch(const std::function<void(int)>& stop) {
  for (;;) {
    pollfd wait{ends_[0], POLLIN, 0};
    ::poll(&wait, 1, caught_signal != 0 ? repeat_milliseconds : -1);
    char bytes[16];
    for (ssize_t n; (n = ::read(ends_[0], bytes, sizeof bytes)) > 0;)
      for (ssize_t i = 0; i < n; ++i)
        if (bytes[i] == 'q') return;
    if (caught_signal != 0) stop(caught_signal);
  }
}

}  // namespace yoke::cli
