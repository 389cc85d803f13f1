#include "yoke/core/failpoint.h"

#include <utility>

namespace yoke {
namespace {

std::function<void(const char*, int)>& handler() {
  static std::function<void(const char*, int)> kept;
  return kept;
}

}  // namespace

namespace detail {
std::atomic<bool> failpoints_armed{false};
void hit_failpoint(const char* name, int index) { handler()(name, index); }
}  // namespace detail

void set_failpoint(std::function<void(const char*, int)> given) {
  detail::failpoints_armed = false;
  handler() = std::move(given);
  detail::failpoints_armed = bool(handler());
}

}  // namespace yoke
