#include <algorithm>

#include "yoke/checkpoint/state_dict_finder_impl.h"
#include "yoke/core/error.h"
#include "yoke/core/log.h"
#include "yoke/core/suggest.h"

namespace yoke {

using Id = PickleGraph::Id;
using Kind = PickleGraph::Kind;

namespace {

constexpr size_t deepest_module = 256;
constexpr size_t most_modules = 1'000'000;

}  // namespace

void StateDictFinder::fail(const std::string& what, const std::string& hint) const {
  throw Error(options_.where, file_ + ": " + what, hint);
}

Id StateDictFinder::attributes(Id object) const {
  if (graph_.kind(object) != Kind::call) return PickleGraph::none_id;
  Id state = graph_.state(object);
  // (__dict__, slots) for classes with __slots__
  if (graph_.kind(state) == Kind::tuple && graph_.items(state).size() == 2)
    state = graph_.items(state)[0];
  return graph_.is_mapping(state) ? state : PickleGraph::none_id;
}

StateDictFinder::Content StateDictFinder::content(Id id) const {
  if (graph_.is_mapping(id)) {
    const auto pairs = graph_.items(id);
    for (size_t i = 0; i + 1 < pairs.size(); i += 2)
      if (graph_.is_text(pairs[i]) && tensors_.is_tensor(pairs[i + 1])) return Content::state_dict;
    return Content::other;
  }
  const Id members = attributes(id);
  if (members != PickleGraph::none_id && graph_.lookup(members, "_parameters") &&
      graph_.lookup(members, "_modules"))
    return Content::module;
  return Content::other;
}

StateDict StateDictFinder::find() { return read(choose(graph_.root())); }

Id StateDictFinder::choose(Id root) {
  if (graph_.is_mapping(root))
    report_.lightning = graph_.lookup(root, "pytorch-lightning_version").has_value();
  if (!options_.key.empty()) {
    Id at = root;
    std::string rest = options_.key;
    while (!rest.empty()) {
      // A key may hold dots itself: the whole rest is tried before its first part.
      auto next = graph_.is_mapping(at) ? graph_.lookup(at, rest) : std::nullopt;
      size_t length = rest.size();
      if (!next && graph_.is_mapping(at)) {
        length = rest.find('.');
        if (length != std::string::npos) next = graph_.lookup(at, rest.substr(0, length));
      }
      if (!next) fail("there is no entry \"" + options_.key + "\"");
      at = *next;
      rest = length < rest.size() ? rest.substr(length + 1) : "";
    }
    report_.key = options_.key;
    return at;
  }
  if (content(root) != Content::other) return root;
  if (!graph_.is_mapping(root)) {
    if (tensors_.is_tensor(root)) fail("holds a single tensor without a name", "a state dict");
    const std::string global = called_global(root);
    fail(global.empty() ? "holds no tensors by name"
                        : "holds a " + global + ", which is not a state dict (nothing was run)",
         "torch.save(model.state_dict(), …)");
  }

  // One level further, and one more for {"checkpoint": {"model": {…}}}.
  std::vector<std::pair<std::string, Id>> candidates, level{{"", root}};
  for (int depth = 0; depth < 2 && candidates.empty(); ++depth) {
    std::vector<std::pair<std::string, Id>> below;
    for (const auto& [prefix, mapping] : level) {
      const auto pairs = graph_.items(mapping);
      for (size_t i = 0; i + 1 < pairs.size(); i += 2) {
        if (!graph_.is_text(pairs[i])) continue;
        const std::string key = prefix + std::string(graph_.text(pairs[i]));
        if (content(pairs[i + 1]) != Content::other) {
          candidates.emplace_back(key, pairs[i + 1]);
        } else if (graph_.is_mapping(pairs[i + 1])) {
          below.emplace_back(key + ".", pairs[i + 1]);
        }
      }
    }
    level = std::move(below);
  }
  if (candidates.empty()) {
    std::vector<std::string> keys;
    const auto pairs = graph_.items(root);
    for (size_t i = 0; i + 1 < pairs.size() && keys.size() < 20; i += 2)
      keys.push_back(name_of(pairs[i]));
    fail("holds no tensors by name" + (keys.empty() ? "" : " (only " + join_names(keys, 5) + ")"),
         "torch.save(model.state_dict(), …)");
  }
  if (candidates.size() > 1) {
    std::vector<std::string> keys;
    for (const auto& candidate : candidates) keys.push_back("\"" + candidate.first + "\"");
    fail("holds several state dicts: " + join_names(keys),
         ".key = " + keys.front() + " to choose one");
  }
  report_.key = candidates[0].first;
  return candidates[0].second;
}

std::string StateDictFinder::name_of(Id key) const {
  if (graph_.is_text(key)) return std::string(graph_.text(key));
  if (const auto number = graph_.integer(key)) return std::to_string(*number);
  return "?";
}

StateDict StateDictFinder::read(Id id) {
  StateDict state;
  switch (content(id)) {
    case Content::state_dict:
      read_mapping(id, state);
      break;
    case Content::module:
      report_.whole_model = true;
      read_module(id, state);
      break;
    case Content::other:
      fail("\"" + options_.key + "\" holds no tensors by name");
  }
  return state;
}

void StateDictFinder::read_mapping(Id id, StateDict& state) {
  const auto pairs = graph_.items(id);
  for (size_t i = 0; i + 1 < pairs.size(); i += 2) {
    const std::string name = name_of(pairs[i]);
    if (tensors_.is_tensor(pairs[i + 1]) && graph_.is_text(pairs[i])) {
      state.set(name, tensors_.rebuild(pairs[i + 1], name));
      continue;
    }
    // Numbers and texts beside the tensors are harmless; what would have been code is not ours.
    if (const std::string global = called_global(pairs[i + 1]); !global.empty())
      fail("\"" + name + "\" holds a " + global +
               ", which does not belong into a state dict (nothing was run)",
           "torch.save(model.state_dict(), …)");
    report_.skipped.push_back(name);
  }
}

std::string StateDictFinder::called_global(Id value) const {
  std::vector<Id> open{value};
  std::unordered_set<Id> seen;
  while (!open.empty()) {
    const Id id = open.back();
    open.pop_back();
    if (!seen.insert(id).second) continue;
    for (Id item : graph_.items(id)) open.push_back(item);
    if (graph_.kind(id) == Kind::global) {
      const std::string name = graph_.global_name(id);
      // Types that state dicts carry along as values.
      if (!name.starts_with("torch.") && !name.starts_with("collections.") &&
          !name.starts_with("numpy."))
        return name;
    }
    if (graph_.kind(id) == Kind::call) {
      for (Id part : {graph_.state(id), graph_.arguments(id), graph_.callable(id)})
        open.push_back(part);
      for (Id element : graph_.elements(id)) open.push_back(element);
    }
  }
  return "";
}

// In the order of torch.nn.Module.state_dict: parameters, buffers, then the children.
void StateDictFinder::read_module(Id root, StateDict& state) {
  struct Open {
    Id members;
    std::string prefix;
    size_t depth;
  };
  std::vector<Open> open{{attributes(root), "", 0}};
  size_t modules = 0;
  while (!open.empty()) {
    const Open module = open.back();
    open.pop_back();
    // A module may stand in several places (tied), but not inside itself.
    if (module.depth > deepest_module || ++modules > most_modules)
      fail("the model's modules are nested without end at \"" + module.prefix.substr(0, 100) +
           "\"");
    std::unordered_set<std::string> transient;
    if (const auto names = graph_.lookup(module.members, "_non_persistent_buffers_set")) {
      // A set is pickled as a set, or as a call of set with a list.
      std::vector<Id> lists{*names};
      if (graph_.kind(*names) == Kind::call) {
        const auto arguments = graph_.items(graph_.arguments(*names));
        lists.assign(arguments.begin(), arguments.end());
      }
      for (Id list : lists)
        for (Id item : graph_.items(list)) transient.insert(name_of(item));
    }
    for (const char* kind : {"_parameters", "_buffers"}) {
      const auto tensors = graph_.lookup(module.members, kind);
      if (!tensors) continue;
      const auto pairs = graph_.items(*tensors);
      for (size_t i = 0; i + 1 < pairs.size(); i += 2) {
        const std::string name = name_of(pairs[i]);
        if (!tensors_.is_tensor(pairs[i + 1])) continue;  // None
        if (kind[1] == 'b' && transient.count(name)) continue;
        state.set(module.prefix + name, tensors_.rebuild(pairs[i + 1], module.prefix + name));
      }
    }
    const auto children = graph_.lookup(module.members, "_modules");
    if (!children) continue;
    const auto pairs = graph_.items(*children);
    for (size_t i = pairs.size(); i >= 2; i -= 2) {  // a stack: the first child on top
      const Id members = attributes(pairs[i - 1]);
      if (members == PickleGraph::none_id) continue;
      open.push_back({members, module.prefix + name_of(pairs[i - 2]) + ".", module.depth + 1});
    }
  }
  if (state.empty()) fail("the model in it has no tensors");
}

}  // namespace yoke
