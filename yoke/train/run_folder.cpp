#include "yoke/train/run_folder.h"

#include <algorithm>
#include <charconv>
#include <filesystem>

#include "yoke/core/error.h"
#include "yoke/core/file.h"
#include "yoke/core/log.h"
#include "yoke/train/run_state.h"

namespace yoke {
namespace fs = std::filesystem;
namespace {

constexpr std::string_view prefix = "checkpoint-";

std::optional<int64_t> step_of(const std::string& name) {
  if (!name.starts_with(prefix)) return std::nullopt;
  int64_t step = 0;
  const char* end = name.data() + name.size();
  const auto [stop, error] = std::from_chars(name.data() + prefix.size(), end, step);
  if (error != std::errc() || stop != end || step < 0) return std::nullopt;
  return step;
}

// A folder appears by rename when all of it is written: with its manifest and its state it is
// whole.
bool is_checkpoint(const fs::path& folder) {
  std::error_code ignored;
  return fs::is_directory(folder, ignored) &&
         fs::exists(folder / AtomicFolder::manifest_name, ignored) &&
         fs::exists(folder / RunState::file_name, ignored) &&
         fs::exists(folder / "optimizer.safetensors", ignored);
}

void remove(const std::string& folder) {
  try {
    AtomicFolder::remove(folder, "train.save");
  } catch (const Error& e) {
    log_warning(e.message());
  }
}

}  // namespace

RunFolder::RunFolder(std::string path) : path_(std::move(path)) {
  while (path_.size() > 1 && path_.back() == '/') path_.pop_back();
}

std::string RunFolder::checkpoint(int64_t step) const {
  return (fs::path(path_) / (std::string(prefix) + std::to_string(step))).string();
}

std::vector<CheckpointFolder> RunFolder::checkpoints() const {
  std::vector<CheckpointFolder> found;
  std::error_code code;
  for (fs::directory_iterator it(path_, code), end; !code && it != end; it.increment(code))
    if (const auto step = step_of(it->path().filename().string()))
      if (is_checkpoint(it->path())) found.push_back({it->path().string(), *step});
  std::sort(found.begin(), found.end(),
            [](const auto& a, const auto& b) { return a.step > b.step; });
  return found;
}

std::optional<CheckpointFolder> RunFolder::as_checkpoint() const {
  if (!is_checkpoint(path_)) return std::nullopt;
  return CheckpointFolder{path_, RunState::from_file(path_ + "/" + RunState::file_name).step};
}

void RunFolder::recover() const {
  AtomicFolder::recover(path_, "train.resume");
  std::error_code code;
  std::vector<fs::path> inside;
  for (fs::directory_iterator it(path_, code), end; !code && it != end; it.increment(code)) {
    const auto name = it->path().filename().string();
    const auto mark = name.find(".tmp-");
    // ".checkpoint-12.tmp-…" beside "checkpoint-12"
    if (name.starts_with('.') && mark != std::string::npos && step_of(name.substr(1, mark - 1)))
      inside.push_back(it->path().parent_path() / name.substr(1, mark - 1));
  }
  for (const auto& target : inside) AtomicFolder::recover(target, "train.resume");
}

void RunFolder::keep_newest(int64_t keep) const {
  const auto all = checkpoints();
  for (size_t i = size_t(std::max<int64_t>(1, keep)); i < all.size(); ++i) remove(all[i].path);
}

void RunFolder::remove_checkpoints() const {
  for (const auto& checkpoint : checkpoints()) remove(checkpoint.path);
}

}  // namespace yoke
