// Named places where tests make yoke fail, to see that nothing hangs and nothing is lost. Without a
// handler a failpoint is one load of a flag.
//
//   set_failpoint([](const char* name, int rank) { … throw std::runtime_error("injected"); });
//   failpoint("step.forward", rank);
#pragma once

#include <atomic>
#include <functional>

namespace yoke {

namespace detail {
extern std::atomic<bool> failpoints_armed;
void hit_failpoint(const char* name, int index);
}  // namespace detail

// `index` says where: a rank, a shard. What the handler throws comes out of here.
inline void failpoint(const char* name, int index = 0) {
  if (detail::failpoints_armed.load(std::memory_order_relaxed)) detail::hit_failpoint(name, index);
}

// Called from any thread, also from several at once; null takes it away. Not while a run goes on.
void set_failpoint(std::function<void(const char* name, int index)> handler);

}  // namespace yoke
