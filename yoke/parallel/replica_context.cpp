#include "yoke/parallel/replica_context.h"

#include <utility>

namespace yoke {
namespace {

thread_local ReplicaContext* here = nullptr;

}  // namespace

void Moments::merge(const Moments& other) {
  if (other.count == 0) return;
  if (count == 0) {
    *this = other;
    return;
  }
  const double total = count + other.count;
  for (size_t c = 0; c < mean.size(); ++c) {
    const double delta = other.mean[c] - mean[c];
    mean[c] += delta * other.count / total;
    m2[c] += other.m2[c] + delta * delta * count * other.count / total;
  }
  count = total;
}

ReplicaContext* ReplicaContext::current() { return here; }

ReplicaContextGuard::ReplicaContextGuard(ReplicaContext& context)
    : former_(std::exchange(here, &context)) {}

ReplicaContextGuard::~ReplicaContextGuard() { here = former_; }

}  // namespace yoke
