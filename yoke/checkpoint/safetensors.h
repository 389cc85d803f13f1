// The safetensors format (https://huggingface.co/docs/safetensors): eight bytes with the header's
// length, a JSON header, the tensors' bytes.
//
//   StateDict state = read_safetensors("model.safetensors");
//   write_safetensors("copy.safetensors", state);
//
// Reading maps the file: a tensor's bytes are read when they are used, and the mapping lives as
// long as any of them. Everything the header says is checked before. Both may be called from any
// thread.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "yoke/checkpoint/state_dict.h"

namespace yoke {

using Metadata = std::map<std::string, std::string>;

// Tensors in the order of their names in the header, on the CPU; `metadata` receives the header's
// __metadata__. Throws Error(where, …) that names the file and the tensor.
StateDict read_safetensors(const std::filesystem::path& path, Metadata* metadata = nullptr,
                           const std::string& where = "checkpoint.load");

// What becomes of names that stand for the same memory (tied weights).
enum class TiedWeights {
  // The first of the names is written, the others go to the metadata as "other": "first", as
  // safetensors.torch.save_model does it.
  keep_first,
  write_all,
};

struct SafetensorsOptions {
  Metadata metadata = {{"format", "pt"}};
  TiedWeights tied = TiedWeights::keep_first;
  // Of tied names these are kept, in place of the first in alphabetical order.
  std::vector<std::string> preferred_names;
  std::string where = "checkpoint.save";
};

// Writes through a temporary name, flushed and renamed. The same tensors give the same bytes,
// those of safetensors.torch.save_file; device, strides and order of insertion do not matter.
void write_safetensors(const std::filesystem::path& path, const StateDict& state,
                       const SafetensorsOptions& options = {});

// The state dict without the names that write_safetensors would leave out, and their new metadata.
StateDict without_tied_names(const StateDict& state, const SafetensorsOptions& options,
                             Metadata* tied);

}  // namespace yoke
