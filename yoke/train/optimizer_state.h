// The optimiser's state by parameter name, for checkpoints: "<name>.exp_avg", "<name>.exp_avg_sq"
// in the parameter's shape and "<name>.step" (0-dim int64). Which devices held it shows nowhere.
#pragma once

#include "yoke/checkpoint/state_dict.h"
#include "yoke/parallel/replica_set.h"

namespace yoke {

// Views of the state of the first memory; a parameter that has never taken a step has zeros.
StateDict optimizer_state(ReplicaSet& replicas);

// Gives every memory the state. Throws Error that names the tensor when names or shapes differ;
// then nothing has changed.
void load_optimizer_state(ReplicaSet& replicas, const StateDict& state, const std::string& file);

}  // namespace yoke
