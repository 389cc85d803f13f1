#include <algorithm>
#include <bit>
#include <cctype>

#include "yoke/checkpoint/name_matcher_impl.h"

namespace yoke {
namespace {

// DataParallel and DistributedDataParallel, torch.compile, FullyShardedDataParallel.
constexpr std::string_view wrappers[] = {"module", "_orig_mod", "_fsdp_wrapped_module"};
constexpr size_t most_wrappers = 6;

bool is_wrapper(std::string_view part) {
  return std::find(std::begin(wrappers), std::end(wrappers), part) != std::end(wrappers);
}

std::vector<std::string> split(std::string_view name) {
  std::vector<std::string> parts;
  for (size_t begin = 0;;) {
    const size_t dot = name.find('.', begin);
    parts.emplace_back(name.substr(begin, dot - begin));
    if (dot == std::string_view::npos) return parts;
    begin = dot + 1;
  }
}

// The parts of which the mask's bit is not set.
std::string join(const std::vector<std::string>& parts, const std::vector<size_t>& places,
                 unsigned mask) {
  std::string name;
  size_t next = 0;
  for (size_t i = 0; i < parts.size(); ++i) {
    const bool candidate = next < places.size() && places[next] == i;
    const bool drop = candidate && (mask >> next & 1);
    next += candidate;
    if (drop) continue;
    if (!name.empty()) name += '.';
    name += parts[i];
  }
  return name;
}

// Where a part may be a wrapper. Lightning's "model" stands first, behind nothing but wrappers.
std::vector<size_t> wrapper_places(const std::vector<std::string>& parts) {
  std::vector<size_t> places;
  bool front = true;
  for (size_t i = 0; i + 1 < parts.size() && places.size() < most_wrappers; ++i) {
    if (is_wrapper(parts[i])) {
      places.push_back(i);
    } else {
      if (front && parts[i] == "model") places.push_back(i);
      front = false;
    }
  }
  return places;
}

// LayerNorm.gamma and .beta of TensorFlow's and the earliest PyTorch's BERT; other modules may own
// parameters of these names.
std::string modern_norm_name(const std::string& name) {
  const auto parts = split(name);
  if (parts.size() < 2) return "";
  std::string owner = parts[parts.size() - 2];
  std::transform(owner.begin(), owner.end(), owner.begin(),
                 [](unsigned char c) { return char(std::tolower(c)); });
  owner.erase(std::remove(owner.begin(), owner.end(), '_'), owner.end());
  if (owner.find("layernorm") == std::string::npos) return "";
  const std::string stem = name.substr(0, name.size() - parts.back().size());
  if (parts.back() == "gamma") return stem + "weight";
  if (parts.back() == "beta") return stem + "bias";
  return "";
}

}  // namespace

bool glob_match(std::string_view pattern, std::string_view text) {
  size_t p = 0, t = 0, star = std::string_view::npos, mark = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      mark = t;
    } else if (p < pattern.size() && pattern[p] == text[t]) {
      ++p;
      ++t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++mark;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

bool any_glob_matches(const std::vector<std::string>& patterns, std::string_view text) {
  return std::any_of(patterns.begin(), patterns.end(),
                     [&](const auto& pattern) { return glob_match(pattern, text); });
}

NameMatcher::NameMatcher(const std::vector<std::string>& targets, std::string base_prefix)
    : targets_(targets.begin(), targets.end()), prefix_(std::move(base_prefix)) {}

NameMatch NameMatcher::match(const std::string& name) const {
  NameMatch match;
  if (targets_.count(name)) {
    match.target = name;
    return match;
  }
  const auto parts = split(name);
  const auto places = wrapper_places(parts);
  std::vector<unsigned> masks(size_t{1} << places.size());
  for (size_t i = 0; i < masks.size(); ++i) masks[i] = unsigned(i);
  std::stable_sort(masks.begin(), masks.end(),
                   [](unsigned a, unsigned b) { return std::popcount(a) < std::popcount(b); });
  for (const bool old_norm : {false, true}) {
    for (const unsigned mask : masks) {
      std::string plain = join(parts, places, mask);
      if (old_norm) plain = modern_norm_name(plain);
      if (plain.empty()) continue;
      using Prefix = NameMatch::Prefix;
      std::pair<Prefix, std::string> readings[] = {
          {Prefix::as_it_is, plain},
          {Prefix::added, prefix_.empty() ? "" : prefix_ + plain},
          {Prefix::removed,
           !prefix_.empty() && plain.starts_with(prefix_) ? plain.substr(prefix_.size()) : ""}};
      for (const auto& [prefix, reading] : readings) {
        if (!targets_.count(reading)) continue;
        match.target = reading;
        match.prefix = prefix;
        match.old_norm_name = old_norm;
        for (size_t i = 0; i < places.size(); ++i) {
          if (!(mask >> i & 1)) continue;
          std::string before;
          for (size_t j = 0; j < places[i]; ++j) before += parts[j] + '.';
          match.dropped.emplace_back(before, parts[places[i]]);
        }
        return match;
      }
    }
  }
  return match;
}

std::string NameMatcher::bare(const std::string& name) const {
  const auto parts = split(name);
  std::string plain;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (i + 1 < parts.size() && is_wrapper(parts[i])) continue;
    if (!plain.empty()) plain += '.';
    plain += parts[i];
  }
  if (!prefix_.empty() && plain.starts_with(prefix_)) plain = plain.substr(prefix_.size());
  return plain;
}

}  // namespace yoke
