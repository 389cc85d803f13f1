#include "yoke/checkpoint/mapped_tensor_impl.h"
#include "yoke/checkpoint/torch_tensors_impl.h"
#include "yoke/core/error.h"

namespace yoke {

using Id = PickleGraph::Id;
using Kind = PickleGraph::Kind;

TensorRebuilder::TensorRebuilder(const PickleGraph& graph, StorageSource source, std::string file,
                                 std::string where)
    : graph_(graph), source_(std::move(source)), file_(std::move(file)), where_(std::move(where)) {}

void TensorRebuilder::fail(const std::string& name, const std::string& what,
                           const std::string& hint) const {
  throw Error(where_, file_ + ": tensor \"" + name + "\" " + what,
              hint.empty() ? download_again : hint);
}

bool TensorRebuilder::is_tensor(Id id) const {
  if (graph_.kind(id) != Kind::call) return false;
  const Id what = graph_.callable(id);
  if (graph_.kind(what) != Kind::global) return false;
  const auto name = graph_.text(what);
  return name.starts_with("torch._utils\n_rebuild_") ||
         name == "torch._tensor\n_rebuild_from_type_v2" ||
         name == "torch.nn.parameter\nParameter" || name == "torch.nn.parameter\nBuffer";
}

StorageReference TensorRebuilder::storage_reference(Id persistent) const {
  auto bad = [&](const std::string& what) {
    throw Error(where_, file_ + ": a storage " + what, download_again);
  };
  if (graph_.kind(persistent) != Kind::persistent) bad("is not a reference");
  const Id tuple = graph_.persistent_id(persistent);
  const auto items = graph_.items(tuple);
  if (graph_.kind(tuple) != Kind::tuple || (items.size() != 5 && items.size() != 6) ||
      graph_.text(items[0]) != "storage" || graph_.kind(items[1]) != Kind::global)
    bad("has an unknown kind of reference");
  StorageReference reference;
  const std::string type = graph_.global_name(items[1]);
  if (!type.starts_with("torch.")) bad("has the unknown type " + type);
  const std::string last = type.substr(type.rfind('.') + 1);
  if (last != "UntypedStorage") {
    reference.dtype = dtype_of_storage(last);
    if (!reference.dtype) bad("has the unknown type " + type);
  }
  if (!graph_.is_text(items[2])) {
    const auto number = graph_.integer(items[2]);  // keys of very old files
    if (!number) bad("has no key");
    reference.key = std::to_string(*number);
  } else {
    reference.key = graph_.text(items[2]);
  }
  const auto numel = graph_.integer(items[4]);
  const int64_t itemsize = reference.dtype ? int64_t(c10::elementSize(reference.dtype->type)) : 1;
  const auto bytes = numel ? checked_bytes({*numel}, itemsize) : std::nullopt;
  if (!bytes) bad("\"" + reference.key + "\" has an impossible size");
  reference.bytes = *bytes;
  if (items.size() == 6 && graph_.kind(items[5]) != Kind::none) {
    const auto view = graph_.items(items[5]);
    auto bytes_at = [&](size_t place) -> int64_t {
      const int64_t count = view.size() == 3 ? graph_.integer(view[place]).value_or(-1) : -1;
      return checked_bytes({count}, itemsize).value_or(-1);
    };
    const int64_t offset = bytes_at(1), length = bytes_at(2);
    if (offset < 0 || length < 0 || offset > reference.bytes || length > reference.bytes - offset)
      bad("\"" + reference.key + "\" has a view outside of it");
    reference.view_offset = offset;
    reference.view_bytes = length;
  }
  return reference;
}

int64_t TensorRebuilder::integer(Id id, const std::string& name) const {
  const auto value = graph_.integer(id);
  if (!value) fail(name, "has a size, stride or offset that is no number");
  return *value;
}

std::vector<int64_t> TensorRebuilder::integers(Id tuple, const std::string& name) const {
  // torch.Size is pickled as a call with the tuple of the sizes.
  if (graph_.kind(tuple) == Kind::call &&
      graph_.is_global(graph_.callable(tuple), "torch", "Size")) {
    const auto arguments = graph_.items(graph_.arguments(tuple));
    if (arguments.size() == 1) tuple = arguments[0];
  }
  if (graph_.kind(tuple) != Kind::tuple && graph_.kind(tuple) != Kind::list)
    fail(name, "has no sizes or strides");
  std::vector<int64_t> values;
  for (Id id : graph_.items(tuple)) values.push_back(integer(id, name));
  if (values.size() > 64) fail(name, "has more than 64 dimensions");
  return values;
}

at::Tensor TensorRebuilder::rebuild(Id id, const std::string& name) {
  const auto found = tensors_.find(id);
  if (found != tensors_.end()) return found->second;
  return tensors_[id] = rebuild_once(id, name, 0);
}

at::Tensor TensorRebuilder::rebuild_once(Id id, const std::string& name, int depth) {
  if (depth > 8) fail(name, "is wrapped too often");
  if (!is_tensor(id)) fail(name, "is something else than a tensor");
  const std::string function = graph_.global_name(graph_.callable(id));
  const auto arguments = graph_.items(graph_.arguments(id));
  if (graph_.kind(graph_.arguments(id)) != Kind::tuple) fail(name, "has no arguments");
  auto at_least = [&](size_t count) {
    if (arguments.size() < count) fail(name, "has too few arguments for " + function);
  };
  auto metadata = [&](size_t place) {
    return arguments.size() > place ? arguments[place] : PickleGraph::none_id;
  };
  if (function == "torch._utils._rebuild_tensor") {
    at_least(4);
    return from_storage(arguments, nullptr, PickleGraph::none_id, name);
  }
  if (function == "torch._utils._rebuild_tensor_v2") {
    at_least(4);
    return from_storage(arguments, nullptr, metadata(6), name);
  }
  if (function == "torch._utils._rebuild_tensor_v3") {
    at_least(7);
    const std::string type = graph_.global_name(arguments[6]);
    const FileDtype* dtype = type.starts_with("torch.") ? dtype_of_torch(type.substr(6)) : nullptr;
    if (!dtype) fail(name, "has the unknown dtype " + type);
    return from_storage(arguments, dtype, metadata(7), name);
  }
  if (function.starts_with("torch._utils._rebuild_parameter") ||
      function.starts_with("torch.nn.parameter.")) {
    at_least(1);
    return rebuild_once(arguments[0], name, depth + 1);
  }
  if (function == "torch._tensor._rebuild_from_type_v2") {  // (function, type, arguments, state)
    at_least(3);
    if (graph_.is_global(arguments[0], "torch._utils", "_rebuild_tensor_v2") &&
        graph_.items(arguments[2]).size() >= 4)
      return from_storage(graph_.items(arguments[2]), nullptr, PickleGraph::none_id, name);
  }
  fail(name, "is made by " + function + ", which is not a dense tensor",
       "a file with dense tensors only");
}

at::Tensor TensorRebuilder::from_storage(std::span<const Id> arguments, const FileDtype* dtype,
                                         Id metadata, const std::string& name) {
  const StorageReference reference = storage_reference(arguments[0]);
  if (!dtype) dtype = reference.dtype;
  if (!dtype) fail(name, "has no dtype");
  const int64_t itemsize = int64_t(c10::elementSize(dtype->type));
  const int64_t offset = integer(arguments[1], name);
  const auto sizes = integers(arguments[2], name), strides = integers(arguments[3], name);
  const std::string shape = shape_text(sizes);
  if (sizes.size() != strides.size()) fail(name, "has " + shape + " and other strides");
  if (!checked_bytes(sizes, itemsize)) fail(name, "has the impossible shape " + shape);

  auto found = storages_.find(reference.key);
  if (found == storages_.end()) found = storages_.emplace(reference.key, source_(reference)).first;
  int64_t begin = 0, room = int64_t(found->second.nbytes());
  if (reference.view_bytes >= 0) {
    begin = reference.view_offset;
    room = std::min(room - begin, reference.view_bytes);
    if (begin % itemsize != 0) fail(name, "lies across the elements of its storage");
  }

  // The last element, and so every element, lies inside; nothing here may overflow.
  bool empty = false, outside = offset < 0;
  int64_t last = offset;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (strides[i] < 0) fail(name, "has a negative stride");
    if (sizes[i] == 0) empty = true;
    if (sizes[i] < 2) continue;
    int64_t reach = 0;
    outside |= __builtin_mul_overflow(sizes[i] - 1, strides[i], &reach) ||
               __builtin_add_overflow(last, reach, &last);
  }
  if (!empty && (outside || room < 0 || last >= room / itemsize))
    fail(name,
         "of shape " + shape + " reaches beyond its storage of " + std::to_string(room) + " bytes");
  // A stride of 0 makes much of little (Tensor.expand); a file must not make terabytes of a
  // kilobyte.
  constexpr int64_t most_repeats = 16, always_allowed = int64_t{64} << 20;
  const int64_t bytes = *checked_bytes(sizes, itemsize);
  if (bytes > always_allowed && bytes / most_repeats > room)
    fail(name,
         "of shape " + shape + " repeats a storage of only " + std::to_string(room) + " bytes",
         "a contiguous copy: tensor.contiguous() before torch.save");
  // One storage read as two types may be aligned for the first only.
  const auto* data = static_cast<const std::byte*>(found->second.data());
  if (!empty && reinterpret_cast<uintptr_t>(data + begin) % size_t(itemsize) != 0)
    fail(name, "shares its storage with one of another dtype");
  at::Tensor tensor =
      empty ? contiguous_tensor_over(found->second, dtype->type, sizes)
            : tensor_over(found->second, dtype->type, sizes, strides, begin / itemsize + offset);
  if (graph_.is_mapping(metadata)) {  // lazily conjugated or negated
    auto set = [&](const char* key) {
      const auto value = graph_.lookup(metadata, key);
      return value && graph_.integer(*value).value_or(0) != 0;
    };
    if (set("conj") && tensor.is_complex()) tensor = tensor.conj().resolve_conj();
    if (set("neg")) tensor = tensor.neg();
  }
  return tensor;
}

}  // namespace yoke
