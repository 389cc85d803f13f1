// How replicas that compute at the same moment exchange what a layer needs of all of them (batch
// normalisation). A moment is the n-th micro-batch of a step: the replicas that have one take part.
// Free of LibTorch.
//
//   MomentExchange exchange({3, 2, 0});            // micro-batches of each rank
//   auto items = exchange.exchange(rank, {moment, Pass::forward, call}, "bn1", mine);   // waits
//   exchange.leave(rank, moment, Pass::forward);   // this rank comes no more
#pragma once

#include <condition_variable>
#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <tuple>
#include <vector>

namespace yoke {

enum class Pass { forward, backward };

class MomentExchange {
 public:
  using Item = std::shared_ptr<void>;
  struct Key {
    size_t moment = 0;
    Pass pass = Pass::forward;
    size_t call = 0;  // the n-th exchange of this pass
    bool operator<(const Key& other) const {
      return std::tie(moment, pass, call) < std::tie(other.moment, other.pass, other.call);
    }
  };

  // By rank: the moments it takes part in, from 0.
  explicit MomentExchange(std::vector<size_t> moments);

  // Ranks that take part in a moment.
  int participants(size_t moment) const;

  // Waits until every participant has brought its item; returns them by rank, null for ranks that
  // take no part. Throws Aborted after abort(), and std::logic_error that names `label` when a
  // participant has left without coming, or came with another label.
  std::vector<Item> exchange(int rank, Key key, const std::string& label, Item item);

  void leave(int rank, size_t moment, Pass pass);
  void abort();

 private:
  struct Round {
    std::vector<Item> items;
    int arrived = 0;
    int returned = 0;
    std::string label;
    bool differs = false;
  };
  // A participant that will not come any more; -1 for none.
  int missing(const Round& round, Key key) const;

  const std::vector<size_t> moments_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::map<Key, Round> rounds_;
  std::set<std::tuple<size_t, Pass, int>> left_;
  bool aborted_ = false;
};

}  // namespace yoke
