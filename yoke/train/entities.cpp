#include "yoke/train/entities.h"

#include <algorithm>
#include <map>

namespace yoke {
namespace {

// "B-PER" -> 'B'; 0 when the name is none of this kind.
char kind_of(const std::string& name) {
  if (name.empty() || std::string("OBIES").find(name[0]) == std::string::npos) return 0;
  if (name.size() == 1) return name[0];
  return name[0] != 'O' && name[1] == '-' ? name[0] : 0;
}

// Whether an entity ends between two tags, and whether one begins: the rules of conlleval.
bool ends(char before, char tag, bool other_type) {
  if (before == 'E' || before == 'S') return true;
  if ((before == 'B' || before == 'I') && (tag == 'B' || tag == 'S' || tag == 'O')) return true;
  return before != 'O' && other_type;
}

bool begins(char before, char tag, bool other_type) {
  if (tag == 'B' || tag == 'S') return true;
  if ((before == 'E' || before == 'S' || before == 'O') && (tag == 'E' || tag == 'I')) return true;
  return tag != 'O' && other_type;
}

}  // namespace

bool EntityScores::fit(const std::vector<std::string>& names) {
  bool any = false;
  for (const auto& name : names) {
    const char kind = kind_of(name);
    if (kind == 0) return false;
    any |= kind == 'B' || kind == 'I';
  }
  return any;
}

EntityScores::EntityScores(const std::vector<std::string>& names) {
  std::map<std::string, int64_t> types{{"", 0}};
  for (const auto& name : names) {
    const std::string type = name.size() > 2 ? name.substr(2) : "";
    tags_.push_back({kind_of(name), types.try_emplace(type, int64_t(types.size())).first->second});
  }
}

std::vector<EntityScores::Entity> EntityScores::entities(const std::vector<int64_t>& row) const {
  std::vector<Entity> found;
  Tag before;
  int64_t begin = 0;
  for (size_t at = 0; at <= row.size(); ++at) {
    const Tag tag = at < row.size() ? tags_[size_t(row[at])] : Tag{};
    const bool other_type = before.type != tag.type;
    if (ends(before.kind, tag.kind, other_type)) found.push_back({before.type, begin, int64_t(at)});
    if (begins(before.kind, tag.kind, other_type)) begin = int64_t(at);
    before = tag;
  }
  return found;
}

void EntityScores::add_row(const std::vector<int64_t>& truth,
                           const std::vector<int64_t>& predicted) {
  const auto real = entities(truth), claimed = entities(predicted);
  true_ += int64_t(real.size());
  predicted_ += int64_t(claimed.size());
  // Both are in order of their ends, which are all different.
  for (const auto& entity : claimed) {
    const auto at = std::lower_bound(real.begin(), real.end(), entity,
                                     [](const auto& a, const auto& b) { return a.end < b.end; });
    right_ += at != real.end() && *at == entity;
  }
}

double EntityScores::f1() const {
  const double p = precision(), r = recall();
  return p + r > 0 ? 2 * p * r / (p + r) : 0;
}

}  // namespace yoke
