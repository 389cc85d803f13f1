#include "yoke/checkpoint/state_dict.h"

#include "yoke/core/error.h"
#include "yoke/core/suggest.h"

namespace yoke {

StateDict::StateDict(std::initializer_list<Entry> entries) {
  for (const auto& [name, tensor] : entries) insert(name, tensor);
}

void StateDict::insert(std::string name, at::Tensor tensor) {
  if (!index_.emplace(name, entries_.size()).second)
    throw Error("checkpoint.state_dict", "tensor \"" + name + "\" is there twice");
  entries_.emplace_back(std::move(name), std::move(tensor));
}

void StateDict::set(const std::string& name, at::Tensor tensor) {
  const auto found = index_.find(name);
  if (found == index_.end()) {
    insert(name, std::move(tensor));
  } else {
    entries_[found->second].second = std::move(tensor);
  }
}

const at::Tensor* StateDict::find(std::string_view name) const {
  const auto found = index_.find(name);
  return found == index_.end() ? nullptr : &entries_[found->second].second;
}

const at::Tensor& StateDict::at(std::string_view name) const {
  if (const at::Tensor* tensor = find(name)) return *tensor;
  throw Error("checkpoint.state_dict", "there is no tensor \"" + std::string(name) + "\"",
              nearest_name(std::string(name), names()));
}

std::vector<std::string> StateDict::names() const {
  std::vector<std::string> names;
  for (const auto& entry : entries_) names.push_back(entry.first);
  return names;
}

}  // namespace yoke
