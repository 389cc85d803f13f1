// Writes a model folder as transformers' save_pretrained does, whole or not at all.
//
//   save_model_folder("out", state, config, {{"tokenizer.json", text}}, {.overwrite = true});
//
// The same tensors, configuration and files give the same bytes, whatever device the tensors are
// on. May be called from any thread.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "yoke/checkpoint/state_dict.h"
#include "yoke/core/json.h"

namespace yoke {

struct SaveFolderOptions {
  bool overwrite = false;                          // replace what yoke wrote there before
  int64_t max_shard_size = 5'000'000'000;          // bytes of tensors in one file
  std::vector<std::string> preferred_names;        // which of tied names are kept
  std::map<std::string, StateDict> extra_tensors;  // further .safetensors files by name
  std::string where = "save";
};

// config.json, model.safetensors (or shards of at most max_shard_size and their index), and
// `extra_files` by name. Throws Error and leaves what was there.
void save_model_folder(const std::filesystem::path& target, const StateDict& state,
                       const Json& config, const std::map<std::string, std::string>& extra_files,
                       const SaveFolderOptions& options = {});

// JSON as Python's json.dumps(value, indent=2, sort_keys=True) and a newline, which is how
// transformers writes its files; keys that are all numbers are sorted as numbers (id2label).
std::string python_json(const Json& value);

}  // namespace yoke
