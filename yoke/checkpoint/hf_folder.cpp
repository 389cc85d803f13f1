#include "yoke/checkpoint/hf_folder.h"

#include <algorithm>
#include <cstdio>

#include "yoke/checkpoint/safetensors.h"
#include "yoke/core/error.h"
#include "yoke/core/failpoint.h"
#include "yoke/core/file.h"

namespace yoke {
namespace fs = std::filesystem;
namespace {

bool is_number(const std::string& key) {
  return !key.empty() && key.size() < 18 && (key[0] != '0' || key.size() == 1) &&
         std::all_of(key.begin(), key.end(), [](char c) { return c >= '0' && c <= '9'; });
}

bool all_numbers(const Json& object) {
  for (const auto& [key, value] : object.items())
    if (!is_number(key)) return false;
  return true;
}

Json sorted(const Json& value) {
  if (value.is_array()) {
    Json out = Json::array();
    for (const auto& item : value) out.push_back(sorted(item));
    return out;
  }
  if (!value.is_object()) return value;
  std::vector<std::string> keys;
  for (const auto& [key, item] : value.items()) keys.push_back(key);
  if (all_numbers(value)) {
    std::sort(keys.begin(), keys.end(),
              [](const auto& a, const auto& b) { return std::stoll(a) < std::stoll(b); });
  } else {
    std::sort(keys.begin(), keys.end());
  }
  Json out = Json::object();
  // Not out[key]: the ordered object would search all earlier keys each time.
  auto& object = out.get_ref<Json::object_t&>();
  for (auto& key : keys) {
    Json item = sorted(value.find(key).value());
    object.Container::emplace_back(std::move(key), std::move(item));
  }
  return out;
}

struct Shard {
  StateDict tensors;
  int64_t bytes = 0;
};

// In the order of the state dict, as huggingface_hub cuts it; a tensor larger than the limit has a
// file of its own.
std::vector<Shard> cut(const StateDict& state, int64_t limit) {
  std::vector<Shard> shards;
  Shard current;
  for (const auto& [name, tensor] : state) {
    const int64_t bytes = int64_t(tensor.nbytes());
    if (bytes > limit) {
      Shard own;
      own.tensors.insert(name, tensor);
      own.bytes = bytes;
      shards.push_back(std::move(own));
      continue;
    }
    if (current.bytes + bytes > limit) shards.push_back(std::exchange(current, {}));
    current.tensors.insert(name, tensor);
    current.bytes += bytes;
  }
  if (!current.tensors.empty() || shards.empty()) shards.push_back(std::move(current));
  return shards;
}

std::string shard_name(size_t index, size_t count) {
  char name[64];
  std::snprintf(name, sizeof name, "model-%05zu-of-%05zu.safetensors", index + 1, count);
  return name;
}

void write_weights(const fs::path& folder, const StateDict& all, const SaveFolderOptions& options) {
  SafetensorsOptions file{.preferred_names = options.preferred_names, .where = options.where};
  Metadata tied;
  const StateDict state = without_tied_names(all, file, &tied);
  const auto shards = cut(state, options.max_shard_size);
  if (shards.size() == 1) {
    file.metadata.merge(tied);
    write_safetensors(folder / "model.safetensors", state, file);
    return;
  }
  nlohmann::json weight_map;
  int64_t bytes = 0, elements = 0;
  for (size_t i = 0; i < shards.size(); ++i) {
    const std::string name = shard_name(i, shards.size());
    write_safetensors(folder / name, shards[i].tensors, file);
    bytes += shards[i].bytes;
    for (const auto& [tensor, value] : shards[i].tensors) {
      weight_map[tensor] = name;
      elements += value.numel();
    }
  }
  const nlohmann::json index = {
      {"metadata", {{"total_parameters", elements}, {"total_size", bytes}}},
      {"weight_map", std::move(weight_map)}};
  write_file(folder / "model.safetensors.index.json", index.dump(2, ' ', true) + "\n",
             options.where);
}

void check(const std::map<std::string, std::string>& files, const SaveFolderOptions& options) {
  if (options.max_shard_size < 1)
    throw Error(options.where, "max_shard_size is " + std::to_string(options.max_shard_size),
                "a number of bytes");
  for (const auto& [name, bytes] : files) {
    if (name.empty() || name == "." || name == ".." ||
        name.find_first_of(std::string_view("/\0", 2)) != std::string::npos)
      throw Error(options.where, "\"" + name + "\" is no plain file name");
    if (name == "config.json" || name == AtomicFolder::manifest_name ||
        name.ends_with(".safetensors") || name.ends_with(".safetensors.index.json"))
      throw Error(options.where, name + " is written by the library itself");
  }
}

}  // namespace

std::string python_json(const Json& value) { return sorted(value).dump(2, ' ', true) + "\n"; }

void save_model_folder(const fs::path& target, const StateDict& state, const Json& config,
                       const std::map<std::string, std::string>& extra_files,
                       const SaveFolderOptions& options) {
  check(extra_files, options);
  std::string config_text;
  try {
    config_text = python_json(config);
  } catch (const nlohmann::json::exception&) {
    throw Error(options.where, "the configuration holds text that is not UTF-8");
  }
  for (const auto& [name, tensors] : options.extra_tensors)
    if (!name.ends_with(".safetensors") || name == "model.safetensors" ||
        name.find('/') != std::string::npos)
      throw Error(options.where, "\"" + name + "\" is no name for further tensors");
  AtomicFolder folder(target, {.overwrite = options.overwrite, .where = options.where});
  try {
    write_file(folder.path() / "config.json", config_text, options.where);
    for (const auto& [name, bytes] : extra_files)
      write_file(folder.path() / name, bytes, options.where);
    write_weights(folder.path(), state, options);
    for (const auto& [name, tensors] : options.extra_tensors) {
      failpoint("save.tensors");
      write_safetensors(folder.path() / name, tensors,
                        {.tied = TiedWeights::write_all, .where = options.where});
    }
    failpoint("save.commit");
    folder.commit();
  } catch (const Error& error) {
    // Whoever reads it knows the target, not the temporary folder.
    std::string message = error.message();
    const std::string temporary = folder.path().string();
    for (size_t at; (at = message.find(temporary)) != std::string::npos;)
      message.replace(at, temporary.size(), target.string());
    throw Error(error.where(), message, error.hint());
  }
}

}  // namespace yoke
