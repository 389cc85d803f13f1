#include "yoke/parallel/replica_context.h"

#include <utility>

namespace yoke {
namespace {

thread_local ReplicaContext* here = nullptr;

}  // namespace

ReplicaContext* ReplicaContext::current() { return here; }

ReplicaContextGuard::ReplicaContextGuard(ReplicaContext& context)
    : former_(std::exchange(here, &context)) {}

ReplicaContextGuard::~ReplicaContextGuard() { here = former_; }

}  // namespace yoke
