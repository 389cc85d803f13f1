// Where a run goes on from.
#pragma once

#include <memory>
#include <string>

#include "yoke/parallel/replica_set.h"
#include "yoke/train/options.h"
#include "yoke/train/run_state.h"

namespace yoke {

struct ResumePoint {
  std::string path;  // weights; beside them optimizer.safetensors, unless the run is finished
  RunState state;
};

// The newest checkpoint that can be read (or the finished model), where `options` ask to go on from
// one; null when they do not, and when there is none in the output folder, which is said. Reports
// what is passed over, and clears away what a killed run has left. Throws Error for a `resume`
// folder that holds none.
std::unique_ptr<ResumePoint> find_resume_point(const TrainerOptions& options);

// Gives the replicas the optimiser state of the checkpoint.
void restore_optimizer(const ResumePoint& point, ReplicaSet& replicas);

}  // namespace yoke
