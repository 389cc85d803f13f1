// Model folders as Hugging Face lays them out, found by path or by name.
//
//   const ModelFolder folder = resolve_model("bert-base-uncased");   // or a path
//   const Json config = read_config(folder);
//   const StateDict weights = read_weights(folder);
//
// Nothing is downloaded. May be called from any thread.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "yoke/checkpoint/state_dict.h"
#include "yoke/core/json.h"

namespace yoke {

struct ModelFolder {
  std::filesystem::path path;  // where the files are
  std::string name;            // as the caller named it
};

// An existing folder, else the snapshot of refs/main in the Hugging Face cache (HF_HUB_CACHE,
// HUGGINGFACE_HUB_CACHE, HF_HOME, XDG_CACHE_HOME, as huggingface_hub looks them up). Throws Error
// that says where it looked and how to fetch the model.
ModelFolder resolve_model(const std::string& name_or_path);

// config.json, an object.
Json read_config(const ModelFolder& folder);

// model.safetensors, else model.safetensors.index.json with its shards, else pytorch_model.bin,
// else pytorch_model.bin.index.json with its shards. `file` receives the name of the one taken.
StateDict read_weights(const ModelFolder& folder, std::string* file = nullptr);

// One file of weights: safetensors, a shard index, or what torch.save wrote, told apart by what it
// holds, not by its name.
StateDict read_weights_file(const std::filesystem::path& path);

// The cache folder that huggingface_hub would use.
std::filesystem::path hub_cache();

}  // namespace yoke
