#include "yoke/core/gradient_slots.h"

#include <mutex>
#include <shared_mutex>
#include <unordered_map>

namespace yoke {
namespace {

std::shared_mutex mutex;

std::unordered_map<const void*, GradientSlot*>& slots() {
  static std::unordered_map<const void*, GradientSlot*> map;
  return map;
}

}  // namespace

void offer_gradient_slot(const void* parameter, GradientSlot* slot) {
  std::unique_lock lock(mutex);
  if (slot) {
    slots()[parameter] = slot;
  } else {
    slots().erase(parameter);
  }
}

GradientSlot* offered_gradient_slot(const void* parameter) {
  std::shared_lock lock(mutex);
  const auto found = slots().find(parameter);
  return found == slots().end() ? nullptr : found->second;
}

}  // namespace yoke
