// One training from its first step, or from a checkpoint, to its end: plan, steps, reports,
// evaluations, checkpoints, running out of memory, being stopped.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "yoke/data/batch_plan.h"
#include "yoke/parallel/replica_set.h"
#include "yoke/train/balance.h"
#include "yoke/train/events.h"
#include "yoke/train/failure.h"
#include "yoke/train/options.h"
#include "yoke/train/resume.h"
#include "yoke/train/run_folder.h"
#include "yoke/train/run_state.h"
#include "yoke/train/schedule.h"
#include "yoke/train/step.h"
#include "yoke/train/text_model.h"
#include "yoke/train/text_rows.h"
#include "yoke/train/trainer.h"

namespace yoke {

// What a run needs of the Trainer that it belongs to; all of it outlives the run.
struct RunHost {
  const TrainerOptions& options;
  const std::vector<c10::Device>& devices;
  TextModel& text;
  ReplicaSet& replicas;
  const std::atomic<bool>& stop;
  std::function<void(const Event&)> emit;
  std::function<void(const Progress&)> progress;
  std::function<EvaluateEvent(int64_t step)> evaluate;  // empty: no rows to evaluate
};

class TrainingRun {
 public:
  // `started_from` is the digest of the weights that the run starts, or once started, from.
  // Throws Error when `resume` is of another run, or an option cannot be.
  TrainingRun(RunHost host, const TextRows& rows, const std::string& started_from,
              const ResumePoint* resume);
  TrainResult run();

 private:
  struct Prepared;
  MicroBatchLimits default_limits() const;
  Json identity(const std::string& started_from) const;
  Prepared prepare(GlobalBatch batch, MicroBatchLimits limits,
                   const std::vector<double>& speeds) const;
  void announce(const Model& model) const;
  StepOutput take_step(Prepared& prepared);
  StepWork work_of(const Prepared& prepared) const;
  bool split(const Prepared& prepared, const OutOfMemory& error);
  void report(const Prepared& prepared, const StepOutput& output, bool now);
  void save_checkpoint();
  void save_to(const std::string& path, bool overwrite, const TextModel::Extra& extra) const;
  std::string save_model();

  RunHost host_;
  const TextRows& rows_;
  const bool exact_;
  TrainPlan plan_;
  const Schedule schedule_;
  const RunFolder folder_;
  int64_t shards_ = 0;  // of a step: replicas or logical shards
  MicroBatchLimits limits_;
  Balance balance_;
  RunState state_;
  int64_t saved_step_ = -1;  // of the newest checkpoint
  bool warned_no_targets_ = false;
};

}  // namespace yoke
