// Ctrl-C and SIGTERM as a wish to stop: while a StopOnSignal lives, the first signal calls `stop`
// from a thread of its own, the second ends the process at once. A signal that was ignored when the
// program began (nohup, a job in the background of a script) stays ignored.
//
//   StopOnSignal watch([&](int) { trainer.stop(); });
#pragma once

#include <functional>
#include <thread>

namespace yoke::cli {

class StopOnSignal {
 public:
  // `stop` is called with the signal's number, and again every tenth of a second until this object
  // goes: a wish that arrives just before the work begins is not lost.
  explicit StopOnSignal(std::function<void(int)> stop);
  ~StopOnSignal();
  StopOnSignal(const StopOnSignal&) = delete;
  StopOnSignal& operator=(const StopOnSignal&) = delete;

  // The signal that came, or 0.
  int caught() const;

 private:
  void watch(const std::function<void(int)>& stop);

  int ends_[2] = {-1, -1};  // of a pipe: a handler may write to one, and do little else
  std::thread thread_;
};

}  // namespace yoke::cli
