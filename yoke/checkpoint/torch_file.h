// Files of torch.save (.pth, .pt, .bin, .th), read without Python and without running anything.
//
//   StateDict state = read_torch_file("pytorch_model.bin");
//
// The pickle in the file is read as data: a global that it names is a name and stays one. Tensors
// of the zip format are views of the mapped file; storages that tensors share are shared again.
// May be called from any thread.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "yoke/checkpoint/state_dict.h"

namespace yoke {

struct TorchFileOptions {
  // Which entry of the file is the state dict, "a.b" for one inside another. Empty: the file's
  // own tensors, or the one entry that holds tensors by name ("state_dict", "model", …).
  std::string key;
  std::string where = "checkpoint.load";
};

// What stood around the tensors, for callers that tell their user.
struct TorchFileReport {
  std::string format;                // "zip" or "legacy"
  std::string key;                   // the entry that was taken, empty: the file itself
  bool whole_model = false;          // torch.save(model): tensors of its module tree
  bool lightning = false;            // PyTorch Lightning wrote it
  std::vector<std::string> skipped;  // entries beside the tensors that hold none
};

// The tensors of a state dict, of a dictionary that holds one, or of a whole pickled model, on the
// CPU. Throws Error that names the file and what is wrong with it.
StateDict read_torch_file(const std::filesystem::path& path, const TorchFileOptions& options = {},
                          TorchFileReport* report = nullptr);

}  // namespace yoke
