#include "yoke/checkpoint/model_folder.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>

#include "yoke/checkpoint/mapped_tensor_impl.h"
#include "yoke/checkpoint/safetensors.h"
#include "yoke/checkpoint/torch_file.h"
#include "yoke/core/error.h"
#include "yoke/core/file.h"
#include "yoke/core/suggest.h"

namespace yoke {
namespace fs = std::filesystem;
namespace {

constexpr const char* where = "checkpoint.load";
constexpr const char* weight_files[] = {"model.safetensors", "model.safetensors.index.json",
                                        "pytorch_model.bin", "pytorch_model.bin.index.json"};

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

fs::path expand_user(const std::string& path) {
  if (path == "~" || path.starts_with("~/")) return environment("HOME") + path.substr(1);
  return path;
}

bool is_there(const fs::path& path) {
  std::error_code code;
  return fs::exists(path, code) && !code;
}

bool is_folder(const fs::path& path) {
  std::error_code code;
  return fs::is_directory(path, code) && !code;
}

std::vector<std::string> entries_of(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code code;
  for (fs::directory_iterator it(folder, code), end; !code && it != end; it.increment(code))
    names.push_back(it->path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

// "name" or "organisation/name", of the characters that the hub allows.
bool is_hub_name(const std::string& name) {
  if (name.empty() || name.size() > 200 || name.find("..") != std::string::npos ||
      std::count(name.begin(), name.end(), '/') > 1)
    return false;
  if (name.front() == '.' || name.front() == '/' || name.back() == '/') return false;
  return std::all_of(name.begin(), name.end(), [](unsigned char c) {
    return std::isalnum(c) || c == '-' || c == '_' || c == '.' || c == '/';
  });
}

std::string cache_entry(const std::string& name) {
  std::string entry = "models--" + name;
  if (const size_t slash = entry.find('/'); slash != std::string::npos)
    entry.replace(slash, 1, "--");
  return entry;
}

std::vector<std::string> cached_names() {
  std::vector<std::string> names;
  for (std::string entry : entries_of(hub_cache())) {
    if (!entry.starts_with("models--")) continue;
    entry = entry.substr(8);
    if (const size_t dashes = entry.find("--"); dashes != std::string::npos)
      entry.replace(dashes, 2, "/");
    names.push_back(entry);
  }
  return names;
}

// The folder of refs/main, or an empty path when the cache has no complete snapshot.
fs::path snapshot_of(const fs::path& entry) {
  const fs::path snapshots = entry / "snapshots";
  const fs::path ref = entry / "refs" / "main";
  if (is_there(ref)) {
    std::string revision = read_file(ref, where);
    while (!revision.empty() && std::isspace(static_cast<unsigned char>(revision.back())))
      revision.pop_back();
    const bool plain =
        !revision.empty() && std::all_of(revision.begin(), revision.end(),
                                         [](unsigned char c) { return std::isalnum(c); });
    return plain && is_folder(snapshots / revision) ? snapshots / revision : fs::path();
  }
  // Fetched by commit: no reference, and only one to choose from.
  const auto revisions = entries_of(snapshots);
  return revisions.size() == 1 ? snapshots / revisions[0] : fs::path();
}

void check_holds_a_model(const fs::path& folder) {
  if (is_there(folder / "config.json")) return;
  for (const char* file : weight_files)
    if (is_there(folder / file)) return;
  const auto entries = entries_of(folder);
  std::vector<std::string> checkpoints;
  for (const auto& entry : entries)
    if (entry.starts_with("checkpoint-") && is_folder(folder / entry))
      checkpoints.push_back((folder / entry).string());
  throw Error(
      where,
      folder.string() + ": no model: neither config.json nor weights" +
          (entries.empty() ? ", the folder is empty" : " (only " + join_names(entries, 4) + ")"),
      checkpoints.empty() ? "the folder that save_pretrained or yoke wrote"
                          : "a checkpoint in it: " + join_names(checkpoints, 3));
}

// --- shards ---

bool is_plain_file_name(const std::string& name) {
  return !name.empty() && name != "." && name != ".." &&
         name.find_first_of(std::string_view("/\\\0", 3)) == std::string::npos;
}

// weight_map of a shard index: tensor name -> file name.
std::map<std::string, std::string> read_weight_map(const fs::path& index) {
  const std::string text = read_file(index, where);
  auto fail = [&](const std::string& what) {
    throw Error(where, index.string() + ": " + what, download_again);
  };
  // Not core's ordered Json: it looks keys up one by one, and there are as many as tensors.
  nlohmann::json json;
  try {
    json = nlohmann::json::parse(text, [&](int depth, auto, auto&) {
      if (depth > 64) fail("nested deeper than 64");
      return true;
    });
  } catch (const nlohmann::json::parse_error& e) {
    fail("not valid JSON at byte " + std::to_string(e.byte));
  }
  const auto map = json.find("weight_map");
  if (!json.is_object() || map == json.end() || !map->is_object() || map->empty())
    fail("no shard index: it has no weight_map");
  std::map<std::string, std::string> files;
  for (const auto& [name, file] : map->items()) {
    if (!file.is_string()) fail("tensor \"" + name + "\" has no file");
    const auto shard = file.template get<std::string>();
    if (!is_plain_file_name(shard))
      fail("tensor \"" + name + "\" lies in " + file.dump() + ", which is no plain file name");
    files[name] = shard;
  }
  return files;
}

StateDict read_one(const fs::path& path) {
  const MappedFile file(path, where);
  const auto* bytes = reinterpret_cast<const unsigned char*>(file.data());
  const bool torch = file.size() >= 2 && ((bytes[0] == 'P' && bytes[1] == 'K') || bytes[0] == 0x80);
  // A safetensors file may begin with these bytes too (they are its header's length): it has its
  // JSON at byte 8.
  const bool json = file.size() > 8 && bytes[8] == '{' && bytes[7] == 0;
  if (torch && !json) return read_torch_file(path);
  const std::string extension = path.extension().string();
  if (!json &&
      (extension == ".bin" || extension == ".pth" || extension == ".pt" || extension == ".th"))
    return read_torch_file(path);  // for its errors
  return read_safetensors(path);
}

StateDict read_sharded(const fs::path& index) {
  const auto weight_map = read_weight_map(index);
  std::set<std::string> shards;
  for (const auto& [name, file] : weight_map) shards.insert(file);
  std::vector<std::string> missing;
  for (const auto& shard : shards)
    if (!is_there(index.parent_path() / shard)) missing.push_back(shard);
  if (!missing.empty())
    throw Error(where,
                index.string() + ": " + std::to_string(missing.size()) + " of " +
                    std::to_string(shards.size()) +
                    " shards are missing: " + join_names(missing, 4),
                download_again);
  StateDict state;
  for (const auto& shard : shards) {
    const fs::path path = index.parent_path() / shard;
    for (auto& [name, tensor] : read_one(path)) {
      if (state.contains(name))
        throw Error(where, path.string() + ": tensor \"" + name + "\" is in another shard too",
                    download_again);
      state.insert(name, tensor);
    }
  }
  std::vector<std::string> absent;
  for (const auto& [name, shard] : weight_map)
    if (!state.contains(name)) absent.push_back(name);
  if (!absent.empty())
    throw Error(where,
                index.string() + ": its shards lack " + std::to_string(absent.size()) +
                    " of the tensors that it lists: " + join_names(absent, 4),
                download_again);
  return state;
}

}  // namespace

fs::path hub_cache() {
  for (const char* name : {"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"})
    if (const std::string path = environment(name); !path.empty()) return expand_user(path);
  if (const std::string home = environment("HF_HOME"); !home.empty())
    return expand_user(home) / "hub";
  if (const std::string cache = environment("XDG_CACHE_HOME"); !cache.empty())
    return expand_user(cache) / "huggingface" / "hub";
  return expand_user("~/.cache/huggingface/hub");
}

ModelFolder resolve_model(const std::string& name) {
  if (name.empty()) throw Error(where, "no model is named", "a folder, or a name in the cache");
  const fs::path path = expand_user(name);
  if (is_folder(path)) {
    check_holds_a_model(path);
    return {path, name};
  }
  if (is_there(path))
    throw Error(where, path.string() + ": is a file, a model is a folder with config.json",
                "its folder: " + (path.has_parent_path() ? path.parent_path().string() : "."));
  if (!is_hub_name(name))
    throw Error(where, name + ": no such folder", "the path of a model folder");

  const fs::path cache = hub_cache();
  const fs::path entry = cache / cache_entry(name);
  const std::string fetch = "hf download " + name;
  if (is_folder(entry)) {
    const fs::path snapshot = snapshot_of(entry);
    if (snapshot.empty())
      throw Error(where, entry.string() + ": the cached model has no complete snapshot", fetch);
    // A snapshot is made of links into blobs/; one whose download broke off leads nowhere.
    for (const auto& file : entries_of(snapshot))
      if (!is_there(snapshot / file))
        throw Error(where, (snapshot / file).string() + ": the download is incomplete", fetch);
    check_holds_a_model(snapshot);
    return {snapshot, name};
  }
  const std::string near = nearest_name(name, cached_names());
  throw Error(
      where,
      name + ": neither a folder (looked in " + fs::current_path().string() +
          ") nor a model in the cache (looked in " + cache.string() + ")",
      (near.empty() ? "" : "\"" + near + "\", which is there, or ") + "to fetch it: " + fetch);
}

Json read_config(const ModelFolder& folder) {
  const fs::path path = folder.path / "config.json";
  if (!is_there(path))
    throw Error(where, folder.path.string() + ": the model has no config.json",
                "the config.json of the model that the weights belong to");
  Json config = read_json(path, where);
  if (!config.is_object()) throw Error(where, path.string() + ": is not a JSON object");
  return config;
}

StateDict read_weights(const ModelFolder& folder, std::string* file) {
  for (const char* name : weight_files) {
    const fs::path path = folder.path / name;
    if (!is_there(path)) continue;
    if (file) *file = path.string();
    return std::string_view(name).ends_with(".index.json") ? read_sharded(path) : read_one(path);
  }
  const auto entries = entries_of(folder.path);
  std::vector<std::string> names(std::begin(weight_files), std::end(weight_files));
  std::string hint = "the folder that save_pretrained or yoke wrote";
  for (const auto& entry : entries) {
    if (entry == "tf_model.h5" || entry == "flax_model.msgpack" || entry.ends_with(".ckpt.index"))
      hint = entry + " is of another framework: save it with transformers as safetensors";
    const auto extension = fs::path(entry).extension();
    if (extension == ".safetensors" || extension == ".bin" || extension == ".pth" ||
        extension == ".pt")
      hint = entry + " renamed to model.safetensors or pytorch_model.bin, if it holds the weights";
  }
  throw Error(where,
              folder.path.string() + ": no weights (looked for " + join_names(names) + "; found " +
                  (entries.empty() ? "nothing" : join_names(entries, 4)) + ")",
              hint);
}

StateDict read_weights_file(const fs::path& path) {
  return path.string().ends_with(".index.json") ? read_sharded(path) : read_one(path);
}

}  // namespace yoke
