// Makes things ahead of the one who needs them: a thread runs `make(0), make(1), …` and keeps up to
// `depth` results ready, in order. Exceptions of make() come out of next() at their place.
//
//   Loader<Step> loader(plan.steps(), [&](int64_t step) { return prepare(step); });
//   while (auto step = loader.next()) …
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

namespace yoke {

template <class T>
class Loader {
 public:
  Loader(int64_t count, std::function<T(int64_t)> make, size_t depth = 2, int64_t first = 0)
      : depth_(depth),
        thread_([this, count, first, make = std::move(make)] { produce(first, count, make); }) {}

  ~Loader() {
    {
      std::lock_guard lock(mutex_);
      stop_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  // The next result; nothing after the last one. One consumer.
  std::optional<T> next() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return !ready_.empty() || ended_; });
    if (ready_.empty()) {
      if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
      return std::nullopt;
    }
    std::optional<T> result(std::move(ready_.front()));
    ready_.pop_front();
    lock.unlock();
    changed_.notify_all();
    return result;
  }

 private:
  void produce(int64_t first, int64_t count, const std::function<T(int64_t)>& make) {
    std::exception_ptr error;
    try {
      for (int64_t i = first; i < count; ++i) {
        T made = make(i);
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return stop_ || ready_.size() < depth_; });
        if (stop_) return;
        ready_.push_back(std::move(made));
        lock.unlock();
        changed_.notify_all();
      }
    } catch (...) {
      error = std::current_exception();
    }
    {
      std::lock_guard lock(mutex_);
      error_ = error;
      ended_ = true;
    }
    changed_.notify_all();
  }

  const size_t depth_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<T> ready_;
  std::exception_ptr error_;
  bool ended_ = false;
  bool stop_ = false;
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace yoke
