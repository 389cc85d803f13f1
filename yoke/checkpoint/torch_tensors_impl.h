// From the calls in a pickle of torch.save to tensors.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Storage.h>

#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "yoke/checkpoint/dtypes_impl.h"
#include "yoke/checkpoint/pickle_vm_impl.h"

namespace yoke {

// A reference to a storage, as torch's persistent_id writes it.
struct StorageReference {
  std::string key;
  const FileDtype* dtype = nullptr;  // null: untyped bytes
  int64_t bytes = 0;
  // Legacy files: a view of this many bytes at this place.
  int64_t view_offset = 0;
  int64_t view_bytes = -1;  // -1: no view
};

class TensorRebuilder {
 public:
  // Gives the storage of a key; asked once a key.
  using StorageSource = std::function<c10::Storage(const StorageReference&)>;

  TensorRebuilder(const PickleGraph& graph, StorageSource source, std::string file,
                  std::string where);

  // Whether the node is a call that makes a tensor or a parameter, of a kind that is known or not.
  bool is_tensor(PickleGraph::Id id) const;
  // The tensor; tensors that share a storage in the file share it here. `name` is for errors.
  at::Tensor rebuild(PickleGraph::Id id, const std::string& name);

  // Reads ("storage", type, key, location, numel[, view]). Throws Error when it is anything else.
  StorageReference storage_reference(PickleGraph::Id persistent) const;

 private:
  [[noreturn]] void fail(const std::string& name, const std::string& what,
                         const std::string& hint = "") const;
  at::Tensor rebuild_once(PickleGraph::Id id, const std::string& name, int depth);
  at::Tensor from_storage(std::span<const PickleGraph::Id> arguments, const FileDtype* dtype,
                          PickleGraph::Id metadata, const std::string& name);
  std::vector<int64_t> integers(PickleGraph::Id tuple, const std::string& name) const;
  int64_t integer(PickleGraph::Id id, const std::string& name) const;

  const PickleGraph& graph_;
  const StorageSource source_;
  const std::string file_;
  const std::string where_;
  std::unordered_map<PickleGraph::Id, at::Tensor> tensors_;
  std::unordered_map<std::string, c10::Storage> storages_;
};

}  // namespace yoke
