#include <algorithm>

#include "yoke/checkpoint/pickle_vm_impl.h"

namespace yoke {

using Id = PickleGraph::Id;

std::optional<int64_t> PickleGraph::integer(Id id) const {
  if (kind(id) != Kind::integer && kind(id) != Kind::boolean) return std::nullopt;
  return nodes_[id].integer;
}

std::string_view PickleGraph::text(Id id) const {
  switch (kind(id)) {
    case Kind::text:
    case Kind::bytes:
    case Kind::big_integer:
    case Kind::global:
      return {nodes_[id].text.data, nodes_[id].text.size};
    default:
      return {};
  }
}

std::span<const Id> PickleGraph::sequence(uint32_t index) const {
  return index == no_sequence ? std::span<const Id>{} : std::span<const Id>{sequences_[index]};
}

std::span<const Id> PickleGraph::items(Id id) const { return sequence(nodes_[id].sequence); }

std::span<const Id> PickleGraph::elements(Id id) const {
  return kind(id) == Kind::call ? sequence(nodes_[id].call.elements) : std::span<const Id>{};
}

bool PickleGraph::is_global(Id id, std::string_view module, std::string_view name) const {
  if (kind(id) != Kind::global) return false;
  const auto whole = text(id);
  return whole.size() == module.size() + 1 + name.size() && whole.starts_with(module) &&
         whole[module.size()] == '\n' && whole.ends_with(name);
}

std::string PickleGraph::global_name(Id id) const {
  std::string name(text(id));
  std::replace(name.begin(), name.end(), '\n', '.');
  return name;
}

bool PickleGraph::is_mapping(Id id) const {
  if (kind(id) == Kind::dict) return true;
  if (kind(id) != Kind::call) return false;
  const Id what = callable(id);
  return is_global(what, "collections", "OrderedDict") ||
         is_global(what, "collections", "defaultdict") || is_global(what, "collections", "Counter");
}

std::optional<Id> PickleGraph::lookup(Id mapping, std::string_view key) const {
  const auto pairs = items(mapping);
  for (size_t i = pairs.size(); i >= 2; i -= 2)
    if (is_text(pairs[i - 2]) && text(pairs[i - 2]) == key) return pairs[i - 1];
  return std::nullopt;
}

}  // namespace yoke
