#include "yoke/train/resume.h"

#include <filesystem>

#include "yoke/checkpoint/model_folder.h"
#include "yoke/checkpoint/safetensors.h"
#include "yoke/core/error.h"
#include "yoke/core/log.h"
#include "yoke/train/optimizer_state.h"
#include "yoke/train/run_folder.h"

namespace yoke {
namespace {

std::string state_file(const std::string& folder) { return folder + "/" + RunState::file_name; }
std::string optimizer_file(const std::string& folder) { return folder + "/optimizer.safetensors"; }

// All of it is read here, so that a broken checkpoint is known before anything is changed.
std::unique_ptr<ResumePoint> try_point(const std::string& path, bool finished) try {
  auto point = std::make_unique<ResumePoint>();
  point->path = path;
  point->state = RunState::from_file(state_file(path));
  if (finished && !point->state.finished) return nullptr;
  if (!finished) read_safetensors(optimizer_file(path), nullptr, "train.resume");
  read_weights(resolve_model(path));
  return point;
} catch (const Error& e) {
  log_warning("passed over " + path + ": " + e.message());
  return nullptr;
}

}  // namespace

std::unique_ptr<ResumePoint> find_resume_point(const TrainerOptions& options) {
  if (!options.resume) return nullptr;
  const bool here = options.resume->empty();
  if (here && options.output.empty())
    throw Error("train.resume", "there is no output folder to look for checkpoints in",
                ".output or .resume = \"a checkpoint\" (--output, --resume DIR)");
  const RunFolder folder(here ? options.output : *options.resume);
  folder.recover();
  auto found = folder.checkpoints();
  if (const auto own = folder.as_checkpoint()) {
    found.insert(found.begin(), *own);
  } else if (std::filesystem::exists(state_file(folder.path()))) {
    if (auto point = try_point(folder.path(), /*finished=*/true)) return point;
  }
  for (const auto& checkpoint : found)
    if (auto point = try_point(checkpoint.path, /*finished=*/false)) return point;
  if (!here)
    throw Error("train.resume", *options.resume + ": there is no complete checkpoint",
                "a checkpoint folder, or the output folder of a run that saved some");
  log_info(options.output + ": there is no checkpoint yet, starting from the beginning");
  return nullptr;
}

void restore_optimizer(const ResumePoint& point, ReplicaSet& replicas) {
  const auto file = optimizer_file(point.path);
  load_optimizer_state(replicas, read_safetensors(file, nullptr, "train.resume"), file);
}

}  // namespace yoke
