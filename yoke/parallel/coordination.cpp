#include "yoke/parallel/coordination.h"

#include <stdexcept>

namespace yoke {
namespace {

bool is_aborted(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const Aborted&) {
    return true;
  } catch (...) {
    return false;
  }
}

}  // namespace

void FirstError::set(std::exception_ptr error) {
  const bool aborted = is_aborted(error);
  std::lock_guard lock(mutex_);
  if (error_ && !(is_aborted_ && !aborted)) return;
  error_ = std::move(error);
  is_aborted_ = aborted;
}

std::exception_ptr FirstError::get() const {
  std::lock_guard lock(mutex_);
  return error_;
}

void FirstError::reset() {
  std::lock_guard lock(mutex_);
  error_ = nullptr;
  is_aborted_ = false;
}

bool Rendezvous::Round::done() const {
  std::lock_guard lock(mutex);
  return done_;
}

Rendezvous::Rendezvous(int world) : world_(world), next_(size_t(world), 0) {}

std::shared_ptr<Rendezvous::Round> Rendezvous::arrive(int rank, Item item, const std::string& kind,
                                                      const Work& work) {
  std::shared_ptr<Round> round;
  {
    std::lock_guard lock(mutex_);
    if (aborted_) throw Aborted();
    const uint64_t number = next_[size_t(rank)]++;
    while (first_ + rounds_.size() <= number) {
      rounds_.push_back(std::make_shared<Round>());
      rounds_.back()->items.resize(size_t(world_));
    }
    round = rounds_[number - first_];
    if (round->arrived == 0) {
      round->kind = kind;
    } else if (round->kind != kind) {
      aborted_ = true;
      changed_.notify_all();
      throw std::logic_error("replicas met for different operations: \"" + round->kind +
                             "\" and \"" + kind + "\"");
    }
    round->items[size_t(rank)] = std::move(item);
    if (++round->arrived < world_) return round;
    // Rounds fill up in order for each rank, so the full one is always the front.
    while (!rounds_.empty() && rounds_.front()->arrived == world_) {
      rounds_.pop_front();
      ++first_;
    }
  }
  try {
    if (work) work(round->items);
  } catch (...) {
    abort();
    throw;
  }
  {
    std::lock_guard lock(round->mutex);
    round->done_ = true;
  }
  {
    // Taken so that a waiter that has just tested done() is inside wait() before the notification.
    std::lock_guard lock(mutex_);
  }
  changed_.notify_all();
  return round;
}

void Rendezvous::wait(Round& round) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return aborted_ || round.done(); });
  if (!round.done()) throw Aborted();
}

void Rendezvous::abort() {
  {
    std::lock_guard lock(mutex_);
    aborted_ = true;
  }
  changed_.notify_all();
}

bool Rendezvous::aborted() const {
  std::lock_guard lock(mutex_);
  return aborted_;
}

void Rendezvous::reset() {
  std::lock_guard lock(mutex_);
  aborted_ = false;
  rounds_.clear();
  first_ = 0;
  next_.assign(size_t(world_), 0);
}

ThreadTeam::ThreadTeam(int size, std::function<void(int)> start) {
  threads_.reserve(size_t(size));
  for (int rank = 0; rank < size; ++rank)
    threads_.emplace_back([this, rank, start] { loop(rank, start); });
}

ThreadTeam::~ThreadTeam() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  for (auto& thread : threads_) thread.join();
}

void ThreadTeam::loop(int rank, const std::function<void(int)>& start) {
  std::exception_ptr failed_start;
  try {
    if (start) start(rank);
  } catch (...) {
    failed_start = std::current_exception();
  }
  uint64_t seen = 0;
  for (;;) {
    const std::function<void(int)>* task = nullptr;
    {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [&] { return stop_ || generation_ != seen; });
      if (stop_) return;
      seen = generation_;
      task = task_;
    }
    try {
      if (failed_start) std::rethrow_exception(failed_start);
      (*task)(rank);
    } catch (...) {
      error_.set(std::current_exception());
      if (on_failure_) on_failure_();
    }
    {
      std::lock_guard lock(mutex_);
      if (--running_ == 0) finished_.notify_all();
    }
  }
}

void ThreadTeam::run(const std::function<void(int)>& task) {
  {
    std::lock_guard lock(mutex_);
    if (running_ != 0) throw std::logic_error("ThreadTeam::run: a run is under way already");
    error_.reset();
    task_ = &task;
    running_ = size();
    ++generation_;
  }
  wake_.notify_all();
  {
    std::unique_lock lock(mutex_);
    finished_.wait(lock, [&] { return running_ == 0; });
    task_ = nullptr;
  }
  if (auto error = error_.get()) std::rethrow_exception(error);
}

OrderedLaunch::OrderedLaunch(size_t count, std::function<void(size_t)> launch)
    : ready_(count, 0), launch_(std::move(launch)) {}

void OrderedLaunch::ready(size_t index) {
  ready_[index] = 1;
  while (next_ < ready_.size() && ready_[next_]) launch_(next_++);
}

void OrderedLaunch::finish() {
  while (next_ < ready_.size()) launch_(next_++);
}

void OrderedLaunch::reset() {
  ready_.assign(ready_.size(), 0);
  next_ = 0;
}

}  // namespace yoke
