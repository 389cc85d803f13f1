// The output folder of a run: the trained model at its root, checkpoints in checkpoint-<step>/,
// nothing that is not whole.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace yoke {

struct CheckpointFolder {
  std::string path;
  int64_t step = 0;
};

class RunFolder {
 public:
  // `path` may not exist yet.
  explicit RunFolder(std::string path);

  const std::string& path() const { return path_; }
  std::string checkpoint(int64_t step) const;

  // Checkpoints that yoke wrote to the end, the newest (highest step) first.
  std::vector<CheckpointFolder> checkpoints() const;
  // The checkpoint that this folder is, if it is one itself.
  std::optional<CheckpointFolder> as_checkpoint() const;

  // Puts right what a run that was killed has left: temporary folders go, what a swap that was cut
  // off had to carry over comes back.
  void recover() const;

  // Removes the oldest checkpoints but `keep`.
  void keep_newest(int64_t keep) const;
  void remove_checkpoints() const;

 private:
  std::string path_;
};

}  // namespace yoke
