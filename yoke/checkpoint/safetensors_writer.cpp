#include <ATen/core/Tensor.h>
#include <c10/core/DefaultDtype.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "yoke/checkpoint/dtypes_impl.h"
#include "yoke/checkpoint/output_file_impl.h"
#include "yoke/checkpoint/safetensors.h"
#include "yoke/core/error.h"
#include "yoke/core/json.h"

namespace yoke {
namespace {

// What may be written, as contiguous bytes on the CPU.
at::Tensor host_bytes(const at::Tensor& tensor) {
  return tensor.detach().resolve_conj().resolve_neg().to(at::kCPU).contiguous();
}

void check(const std::string& name, const at::Tensor& tensor, const std::string& path,
           const std::string& where) {
  const std::string which = path + ": tensor \"" + name + "\" ";
  if (name.empty()) throw Error(where, path + ": a tensor has no name");
  if (name == "__metadata__")
    throw Error(where, which + "has a name that the format keeps for itself", "another name");
  if (!tensor.defined()) throw Error(where, which + "is undefined");
  if (tensor.layout() != at::kStrided || tensor.is_quantized() || tensor.is_meta())
    throw Error(where, which + "is sparse, quantised or without data", "a dense tensor");
  const FileDtype* dtype = dtype_of(tensor.scalar_type());
  if (!dtype || !dtype->safetensors)
    throw Error(
        where, which + "is " + dtype_name(tensor.scalar_type()) + ", which safetensors cannot hold",
        "another dtype");
}

}  // namespace

StateDict without_tied_names(const StateDict& state, const SafetensorsOptions& options,
                             Metadata* tied) {
  if (options.tied == TiedWeights::write_all) return state;
  // The same memory seen through the same shape: parameters that lie in one flat buffer share a
  // storage and are not tied.
  using View = std::tuple<std::string, const void*, c10::ScalarType, std::vector<int64_t>,
                          std::vector<int64_t>>;
  std::map<View, std::vector<std::string>> groups;
  for (const auto& [name, tensor] : state) {
    if (!tensor.defined() || tensor.layout() != at::kStrided || tensor.numel() == 0 ||
        tensor.is_meta())
      continue;
    groups[{tensor.device().str(), tensor.const_data_ptr(), tensor.scalar_type(),
            tensor.sizes().vec(), tensor.strides().vec()}]
        .push_back(name);
  }
  std::map<std::string, std::string> dropped;
  for (auto& [view, names] : groups) {
    if (names.size() < 2) continue;
    std::sort(names.begin(), names.end());
    std::string keep = names.front();
    for (const auto& name : names) {
      const auto& preferred = options.preferred_names;
      if (std::find(preferred.begin(), preferred.end(), name) == preferred.end()) continue;
      keep = name;
      break;
    }
    for (const auto& name : names)
      if (name != keep) dropped[name] = keep;
  }
  StateDict kept;
  for (const auto& [name, tensor] : state)
    if (!dropped.count(name)) kept.insert(name, tensor);
  if (tied) *tied = std::move(dropped);
  return kept;
}

void write_safetensors(const std::filesystem::path& path, const StateDict& all,
                       const SafetensorsOptions& options) {
  const c10::NoGradGuard no_grad;
  Metadata metadata = options.metadata;
  Metadata tied;
  const StateDict state = without_tied_names(all, options, &tied);
  metadata.merge(tied);  // what the caller says stands

  std::vector<const StateDict::Entry*> order;
  for (const auto& entry : state) {
    check(entry.first, entry.second, path.string(), options.where);
    order.push_back(&entry);
  }
  std::sort(order.begin(), order.end(), [](const auto* a, const auto* b) {
    const int x = safetensors_rank(a->second.scalar_type());
    const int y = safetensors_rank(b->second.scalar_type());
    return x != y ? x < y : a->first < b->first;
  });

  std::string text;
  try {
    // Written by hand around nlohmann's strings: an ordered document of n keys costs n^2.
    auto quoted = [](const std::string& s) { return nlohmann::json(s).dump(); };
    text = "{";
    if (!metadata.empty()) text += "\"__metadata__\":" + nlohmann::json(metadata).dump();
    uint64_t offset = 0;
    for (const auto* entry : order) {
      const auto& [name, tensor] = *entry;
      auto shape = tensor.sizes().vec();
      if (tensor.scalar_type() == c10::ScalarType::Float4_e2m1fn_x2 && !shape.empty())
        shape.back() *= 2;
      const uint64_t end = offset + uint64_t(tensor.numel()) * tensor.element_size();
      if (text.size() > 1) text += ',';
      text += quoted(name) + ":{\"dtype\":\"" + dtype_of(tensor.scalar_type())->safetensors +
              "\",\"shape\":" + nlohmann::json(shape).dump() + ",\"data_offsets\":[" +
              std::to_string(offset) + ',' + std::to_string(end) + "]}";
      offset = end;
    }
    text += '}';
  } catch (const nlohmann::json::exception&) {
    throw Error(options.where, path.string() + ": a tensor's name or the metadata is not UTF-8");
  }
  text.append((8 - text.size() % 8) % 8, ' ');

  OutputFile file(path, options.where);
  const uint64_t length = text.size();
  file.write(&length, 8);
  file.write(text);
  for (const auto* entry : order) {
    const at::Tensor bytes = host_bytes(entry->second);
    file.write(bytes.const_data_ptr(), bytes.nbytes());
  }
  file.commit();
}

}  // namespace yoke
