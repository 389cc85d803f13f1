// How the threads of one call work together: who has arrived, in which order work is done, what
// happens when one of them fails. Free of LibTorch, so that the thread sanitiser sees all of it.
//
//   ThreadTeam team(4);
//   Rendezvous meeting(4);
//   team.on_failure([&] { meeting.abort(); });
//   team.run([&](int rank) {
//     auto round = meeting.arrive(rank, item, "sum", [](auto& items) { … });   // never blocks
//     meeting.wait(*round);
//   });
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace yoke {

// Thrown into threads that waited for a peer which has failed; ThreadTeam drops it in favour of the
// peer's own error.
class Aborted : public std::exception {
 public:
  const char* what() const noexcept override { return "aborted because another replica failed"; }
};

// The first exception of many threads; later ones are dropped.
class FirstError {
 public:
  // Keeps `error` unless one is kept already. An Aborted counts only while there is no other.
  void set(std::exception_ptr error);
  std::exception_ptr get() const;
  void reset();

 private:
  mutable std::mutex mutex_;
  std::exception_ptr error_;
  bool is_aborted_ = false;
};

// Numbered meetings of `world` participants. Each brings one item to its next round and goes on;
// the last to arrive does the round's work on its own thread, with the items in rank order. So
// nobody waits inside a hook, and the result does not depend on who came last.
class Rendezvous {
 public:
  using Item = std::shared_ptr<void>;
  using Items = std::vector<Item>;
  using Work = std::function<void(Items& items)>;

  class Round {
   public:
    bool done() const;

   private:
    friend class Rendezvous;
    Items items;
    int arrived = 0;
    std::string kind;
    bool done_ = false;
    mutable std::mutex mutex;
  };

  explicit Rendezvous(int world);

  // Brings `item` to this rank's next round; it is shared, since a rank that fails may be gone
  // while another still works on what it brought. All ranks must bring the same `kind` to a round;
  // a difference aborts the meeting and throws std::logic_error. Throws Aborted after abort().
  std::shared_ptr<Round> arrive(int rank, Item item, const std::string& kind, const Work& work);

  // Blocks until the round's work is done; throws Aborted when that will not happen any more.
  void wait(Round& round);

  // All waiting and coming participants get Aborted until reset().
  void abort();
  bool aborted() const;

  // Forgets all rounds; nobody may be inside.
  void reset();

  int world() const { return world_; }

 private:
  const int world_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<uint64_t> next_;                 // by rank: number of its next round
  std::deque<std::shared_ptr<Round>> rounds_;  // rounds_[0] has number first_
  uint64_t first_ = 0;
  bool aborted_ = false;
};

// Threads that live as long as the team; rank r always runs on the same one.
class ThreadTeam {
 public:
  // `start` runs once on each thread before anything else.
  explicit ThreadTeam(int size, std::function<void(int rank)> start = {});
  ~ThreadTeam();
  ThreadTeam(const ThreadTeam&) = delete;
  ThreadTeam& operator=(const ThreadTeam&) = delete;

  // Called on the failing thread at the first failure of a run, to wake peers that wait.
  void on_failure(std::function<void()> callback) { on_failure_ = std::move(callback); }

  // Runs task(rank) on every thread, waits for all, then throws the first failure if there was one.
  // One call at a time.
  void run(const std::function<void(int rank)>& task);

  int size() const { return int(threads_.size()); }

 private:
  void loop(int rank, const std::function<void(int)>& start);

  std::function<void()> on_failure_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::condition_variable finished_;
  const std::function<void(int)>* task_ = nullptr;
  uint64_t generation_ = 0;
  int running_ = 0;
  bool stop_ = false;
  FirstError error_;
  std::vector<std::thread> threads_;
};

// Buckets are handed to the collective in one fixed order on every rank (NCCL demands it), whatever
// order they become ready in. One thread at a time.
class OrderedLaunch {
 public:
  OrderedLaunch(size_t count, std::function<void(size_t)> launch);
  // Marks `index` ready and launches it and all ready ones behind it whose predecessors are
  // launched.
  void ready(size_t index);
  // Marks and launches all that are left.
  void finish();
  void reset();
  size_t launched() const { return next_; }

 private:
  std::vector<char> ready_;
  std::function<void(size_t)> launch_;
  size_t next_ = 0;
};

}  // namespace yoke
