#include "yoke/parallel/moment_exchange.h"

#include <stdexcept>

#include "yoke/parallel/coordination.h"

namespace yoke {

MomentExchange::MomentExchange(std::vector<size_t> moments) : moments_(std::move(moments)) {}

int MomentExchange::participants(size_t moment) const {
  int count = 0;
  for (size_t moments : moments_) count += moments > moment;
  return count;
}

int MomentExchange::missing(const Round& round, Key key) const {
  for (size_t rank = 0; rank < moments_.size(); ++rank)
    if (moments_[rank] > key.moment && !round.items[rank] &&
        left_.count({key.moment, key.pass, int(rank)}))
      return int(rank);
  return -1;
}

std::vector<MomentExchange::Item> MomentExchange::exchange(int rank, Key key,
                                                           const std::string& label, Item item) {
  const int world = participants(key.moment);
  std::unique_lock lock(mutex_);
  if (aborted_) throw Aborted();
  auto& round = rounds_[key];
  if (round.items.empty()) {
    round.items.resize(moments_.size());
    round.label = label;
  }
  round.differs |= round.label != label;
  round.items[size_t(rank)] = std::move(item);
  if (++round.arrived == world) changed_.notify_all();
  changed_.wait(lock, [&] {
    return aborted_ || round.differs || round.arrived == world || missing(round, key) >= 0;
  });
  if (round.differs) {
    changed_.notify_all();
    throw std::logic_error("\"" + label + "\" was reached by one replica while another reached \"" +
                           round.label + "\": all must take the same way through the network");
  }
  if (round.arrived < world) {
    const int absent = missing(round, key);
    if (aborted_ || absent < 0) throw Aborted();
    throw std::logic_error("\"" + label + "\" was not reached by replica " +
                           std::to_string(absent) +
                           ": all must take the same way through the network");
  }
  auto items = round.items;
  if (++round.returned == world) rounds_.erase(key);
  return items;
}

void MomentExchange::leave(int rank, size_t moment, Pass pass) {
  {
    std::lock_guard lock(mutex_);
    left_.insert({moment, pass, rank});
  }
  changed_.notify_all();
}

void MomentExchange::abort() {
  {
    std::lock_guard lock(mutex_);
    aborted_ = true;
  }
  changed_.notify_all();
}

}  // namespace yoke
