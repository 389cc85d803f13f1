// Named tensors in the order they were put in: what a file holds and what a model needs.
//
//   StateDict state;
//   state.insert("fc.weight", weight);
//   for (const auto& [name, tensor] : state) …
//   const at::Tensor& w = state.at("fc.weight");
//
// A value type: copies share the tensors. Reading one object from several threads is safe.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <initializer_list>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace yoke {

class StateDict {
 public:
  using Entry = std::pair<std::string, at::Tensor>;

  StateDict() = default;
  StateDict(std::initializer_list<Entry> entries);

  // Throws Error when the name is taken.
  void insert(std::string name, at::Tensor tensor);
  // Replaces the tensor, or adds it at the end.
  void set(const std::string& name, at::Tensor tensor);

  // Null when there is none.
  const at::Tensor* find(std::string_view name) const;
  // Throws Error that suggests the nearest name.
  const at::Tensor& at(std::string_view name) const;
  bool contains(std::string_view name) const { return find(name) != nullptr; }

  size_t size() const { return entries_.size(); }
  bool empty() const { return entries_.empty(); }
  std::vector<Entry>::const_iterator begin() const { return entries_.begin(); }
  std::vector<Entry>::const_iterator end() const { return entries_.end(); }
  std::vector<std::string> names() const;

 private:
  struct Hash {
    using is_transparent = void;
    size_t operator()(std::string_view name) const { return std::hash<std::string_view>{}(name); }
  };

  std::vector<Entry> entries_;
  std::unordered_map<std::string, size_t, Hash, std::equal_to<>> index_;
};

}  // namespace yoke
