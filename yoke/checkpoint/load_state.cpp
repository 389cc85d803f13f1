#include "yoke/checkpoint/load_state.h"

#include <c10/core/GradMode.h>
#include <c10/core/ScalarType.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <set>
#include <tuple>
#include <unordered_map>

#include "yoke/checkpoint/dtypes_impl.h"
#include "yoke/checkpoint/name_matcher_impl.h"
#include "yoke/core/error.h"
#include "yoke/core/log.h"
#include "yoke/core/suggest.h"

namespace yoke {
namespace {

using Names = std::vector<std::string>;

std::string parent_of(const std::string& name, size_t depth) {
  size_t end = 0;
  for (size_t i = 0; i < depth; ++i) {
    const size_t dot = name.find('.', end);
    if (dot == std::string::npos) break;
    end = dot + 1;
  }
  return name.substr(0, end);
}

// "bert.encoder.layer.0.: attention.self.query.weight, …; classifier.: weight": by the deepest
// level of modules that makes few groups.
std::string by_module(const Names& names) {
  constexpr size_t most_groups = 6;
  std::map<std::string, Names> groups;
  for (size_t depth = 16; depth-- > 0;) {
    groups.clear();
    for (const auto& name : names) {
      const std::string parent = parent_of(name, depth);
      groups[parent].push_back(name.substr(parent.size()));
    }
    if (groups.size() <= most_groups) break;
  }
  std::string text;
  for (auto& [parent, members] : groups) {
    if (!text.empty()) text += "; ";
    if (members.size() == 1) {
      text += parent + members[0];
    } else {
      text += parent + "{" + join_names(members, 4) + "}";
    }
  }
  return text;
}

enum class NumberKind { boolean, integer, real, complex };

NumberKind kind_of(c10::ScalarType type) {
  if (type == c10::ScalarType::Bool) return NumberKind::boolean;
  if (c10::isComplexType(type)) return NumberKind::complex;
  return c10::isFloatingType(type) ? NumberKind::real : NumberKind::integer;
}

// Half of the names one way, half another, with an example of each.
std::string halves(const std::string& what, const Names& with, const Names& without) {
  return std::to_string(with.size()) + " names have " + what + " (" + join_names(with, 2) + "), " +
         std::to_string(without.size()) + " have not (" + join_names(without, 2) + ")";
}

// Most of a model is one memcpy a tensor. copy_ would wake the intra-op threads for each of them,
// which costs more than the copying (MiniLM on a busy machine: 0.6 s instead of 0.06 s).
void copy_into(at::Tensor target, const at::Tensor& source) {
  const bool plain = target.is_cpu() && source.is_cpu() &&
                     target.scalar_type() == source.scalar_type() && target.is_contiguous() &&
                     source.is_contiguous() && !target.is_conj() && !target.is_neg();
  if (!plain) {
    target.copy_(source);
    return;
  }
  if (source.nbytes() > 0)
    std::memcpy(target.mutable_data_ptr(), source.const_data_ptr(), source.nbytes());
  // Autograd and replicas look at the version to see that somebody wrote.
  if (!target.is_inference()) target.unsafeGetTensorImpl()->bump_version();
}

class Loader {
 public:
  Loader(const StateDict& file, const NamedTensors& targets, const LoadRules& rules,
         const std::string& source)
      : file_(file), targets_(targets), rules_(rules), source_(source) {
    Names names;
    for (size_t i = 0; i < targets.size(); ++i) {
      names.push_back(targets[i].first);
      if (!place_.emplace(targets[i].first, i).second)
        fail("the model has two tensors called \"" + targets[i].first + "\"");
    }
    matcher_.emplace(names, rules.base_prefix);
    sources_.resize(targets.size());
  }

  LoadReport load() {
    match_names();
    check_halves();
    const Names missing = find_missing();
    settle_optional_parts(missing);
    settle_head(missing);
    for (const auto& name : missing)
      if (!is_head(name) && !any_glob_matches(rules_.optional_parts, name))
        missing_.push_back(name);
    check_shapes();
    throw_faults();
    copy();
    tell();
    return report_;
  }

 private:
  struct Source {
    const StateDict::Entry* entry = nullptr;
    NameMatch match;
  };

  [[noreturn]] void fail(const std::string& what, const std::string& hint = "") const {
    throw Error("checkpoint.load", source_ + ": " + what, hint);
  }

  bool globs_match(const Names& globs, const std::string& name) const {
    return any_glob_matches(globs, name) || any_glob_matches(globs, matcher_->bare(name));
  }
  bool is_head(const std::string& name) const { return globs_match(rules_.own_head, name); }

  void match_names() {
    if (file_.empty()) fail("holds no tensors");
    bool any = false;
    for (const auto& entry : file_) {
      NameMatch match = matcher_->match(entry.first);
      if (match.target.empty()) {
        if (globs_match(rules_.ignorable, entry.first)) continue;
        if (is_head(entry.first)) {
          head_unexpected_.push_back(entry.first);
        } else if (globs_match(rules_.other_heads, entry.first)) {
          report_.left_out.push_back(entry.first);
        } else {
          unexpected_.push_back(entry.first);
        }
        continue;
      }
      any = true;
      Source& source = sources_[place_.at(match.target)];
      if (source.entry)
        fail("\"" + source.entry->first + "\" and \"" + entry.first + "\" both stand for \"" +
             match.target + "\"");
      source = {&entry, std::move(match)};
    }
    if (!any) {
      Names theirs, ours;
      for (const auto& entry : file_) theirs.push_back(entry.first);
      for (const auto& target : targets_) ours.push_back(target.first);
      fail("no tensor in it belongs to the model: it has " + join_names(theirs, 3) +
               ", the model " + join_names(ours, 3),
           "the weights of this architecture");
    }
  }

  // A file is read one way as a whole; where names fit two ways, it is two files mixed, or not
  // ours.
  void check_halves() {
    using Prefix = NameMatch::Prefix;
    std::map<std::pair<std::string, std::string>, Names> dropped;
    Names with_prefix, without_prefix;
    for (const auto& source : sources_) {
      if (!source.entry) continue;
      for (const auto& part : source.match.dropped) dropped[part].push_back(source.entry->first);
      const bool in_body = source.match.target.starts_with(rules_.base_prefix);
      if (source.match.prefix == Prefix::added) {
        without_prefix.push_back(source.entry->first);
      } else if (source.match.prefix == Prefix::removed ||
                 (in_body && !rules_.base_prefix.empty())) {
        with_prefix.push_back(source.entry->first);
      }
      if (source.match.old_norm_name) note("LayerNorm's gamma and beta read as weight and bias");
    }
    for (const auto& [part, with] : dropped) {
      const auto& [before, wrapper] = part;
      const std::string path = before + wrapper + ".";
      Names without;
      for (const auto& source : sources_)
        if (source.entry && source.entry->first.starts_with(before) &&
            !source.entry->first.starts_with(path))
          without.push_back(source.entry->first);
      if (!without.empty()) fail(halves("\"" + path + "\"", with, without), "a file from one save");
      note("\"" + wrapper + ".\" removed");
    }
    if (!with_prefix.empty() && !without_prefix.empty())
      fail(halves("\"" + rules_.base_prefix + "\"", with_prefix, without_prefix),
           "a file from one save");
    if (!without_prefix.empty()) note("\"" + rules_.base_prefix + "\" added");
    for (const auto& source : sources_)
      if (source.entry && source.match.prefix == Prefix::removed)
        note("\"" + rules_.base_prefix + "\" removed");
  }

  void note(const std::string& words) {
    auto& all = report_.renamed;
    if (std::find(all.begin(), all.end(), words) == all.end()) all.push_back(words);
  }

  // Targets that nothing fills, tied ones aside: filling one of them fills the other.
  Names find_missing() const {
    using Memory = std::tuple<std::string, const void*, std::vector<int64_t>>;
    auto memory = [](const at::Tensor& t) {
      return Memory{t.device().str(), t.const_data_ptr(), t.sizes().vec()};
    };
    std::set<Memory> filled;
    for (size_t i = 0; i < targets_.size(); ++i)
      if (sources_[i].entry && targets_[i].second.numel() > 0)
        filled.insert(memory(targets_[i].second));
    Names missing;
    for (size_t i = 0; i < targets_.size(); ++i) {
      const auto& [name, tensor] = targets_[i];
      if (sources_[i].entry || globs_match(rules_.ignorable, name)) continue;
      if (tensor.numel() > 0 && filled.count(memory(tensor))) continue;
      missing.push_back(name);
    }
    return missing;
  }

  void settle_optional_parts(const Names& missing) {
    for (const auto& part : rules_.optional_parts) {
      Names absent, all;
      for (const auto& target : targets_)
        if (glob_match(part, target.first) && !is_head(target.first)) all.push_back(target.first);
      for (const auto& name : missing)
        if (glob_match(part, name) && !is_head(name)) absent.push_back(name);
      const bool wholly = absent.size() == all.size();
      auto& to = wholly && rules_.head_may_be_missing ? report_.new_tensors : missing_;
      to.insert(to.end(), absent.begin(), absent.end());
    }
  }

  void settle_head(const Names& missing) {
    Names absent;
    size_t all = 0;
    for (const auto& target : targets_) all += is_head(target.first);
    for (const auto& name : missing)
      if (is_head(name)) absent.push_back(name);
    if (all == 0) {
      unexpected_.insert(unexpected_.end(), head_unexpected_.begin(), head_unexpected_.end());
      return;
    }
    const bool wholly_absent = absent.size() == all && head_unexpected_.empty();
    if (rules_.new_head || (wholly_absent && rules_.head_may_be_missing)) {
      report_.new_tensors.insert(report_.new_tensors.end(), absent.begin(), absent.end());
      report_.left_out.insert(report_.left_out.end(), head_unexpected_.begin(),
                              head_unexpected_.end());
    } else if (wholly_absent) {
      faults_.push_back("it has no " + join_names(absent, 3) + ": this is a base model");
    } else if (!absent.empty() || !head_unexpected_.empty()) {
      faults_.push_back(
          "its head is another one: " + (absent.empty() ? "" : "it lacks " + by_module(absent)) +
          (absent.empty() || head_unexpected_.empty() ? "" : ", ") +
          (head_unexpected_.empty() ? "" : "it has " + by_module(head_unexpected_)));
      head_fault_ = true;
    }
  }

  void check_shapes() {
    Names bad;
    for (size_t i = 0; i < targets_.size(); ++i) {
      if (!sources_[i].entry) continue;
      const auto& [name, target] = targets_[i];
      const at::Tensor& tensor = sources_[i].entry->second;
      const std::string quoted = "tensor \"" + sources_[i].entry->first + "\" is ";
      if (!tensor.sizes().equals(target.sizes())) {
        if (is_head(name) && rules_.new_head) {
          report_.new_tensors.push_back(name);
          sources_[i].entry = nullptr;
          continue;
        }
        head_fault_ |= is_head(name);
        bad.push_back(quoted + shape_text(tensor.sizes()) + ", the model expects " +
                      shape_text(target.sizes()));
      } else if (kind_of(tensor.scalar_type()) != kind_of(target.scalar_type())) {
        bad.push_back(quoted + dtype_name(tensor.scalar_type()) + ", the model expects " +
                      dtype_name(target.scalar_type()));
      }
    }
    // Each with both shapes; a wrong configuration makes all of them wrong.
    constexpr size_t most = 6;
    for (size_t i = 0; i < bad.size() && i < most; ++i) faults_.push_back(bad[i]);
    if (bad.size() > most)
      faults_.push_back("… (" + std::to_string(bad.size() - most) + " more do not fit)");
  }

  void throw_faults() const {
    Names faults;
    if (!missing_.empty())
      faults.push_back("missing " + std::to_string(missing_.size()) + ": " + by_module(missing_));
    if (!unexpected_.empty())
      faults.push_back("unexpected " + std::to_string(unexpected_.size()) + ": " +
                       by_module(unexpected_));
    faults.insert(faults.end(), faults_.begin(), faults_.end());
    if (faults.empty()) return;
    std::string text;
    for (const auto& fault : faults) text += (text.empty() ? "" : "; ") + fault;
    std::string hint;
    if (head_fault_ && faults.size() == faults_.size()) {
      hint = rules_.new_head_option.empty()
                 ? "as many labels as it was trained for, or the base model"
                 : rules_.new_head_option;
    } else if (missing_.empty() && unexpected_.empty() && faults_.size() == 1 &&
               faults_[0].find("base model") != std::string::npos) {
      hint = "train it first (yoke train), or name a folder that was fine-tuned";
    } else {
      hint = "the config.json and weights of one and the same model";
    }
    fail(text, hint);
  }

  void copy() const {
    const c10::NoGradGuard no_grad;
    for (size_t i = 0; i < targets_.size(); ++i) {
      if (sources_[i].entry) copy_into(targets_[i].second, sources_[i].entry->second);
    }
  }

  void tell() const {
    if (!report_.renamed.empty()) log_info(source_ + ": names: " + join_names(report_.renamed));
    if (!report_.left_out.empty())
      log_info(source_ + ": left out " + std::to_string(report_.left_out.size()) +
               " tensors of other heads: " + by_module(report_.left_out));
    if (!report_.new_tensors.empty())
      log_info(source_ + ": new, not in the file: " + by_module(report_.new_tensors));
  }

  const StateDict& file_;
  const NamedTensors& targets_;
  const LoadRules& rules_;
  const std::string& source_;
  std::unordered_map<std::string, size_t> place_;
  std::optional<NameMatcher> matcher_;
  std::vector<Source> sources_;  // by target
  Names missing_, unexpected_, head_unexpected_, faults_;
  bool head_fault_ = false;
  LoadReport report_;
};

}  // namespace

LoadReport load_state(const StateDict& file, const NamedTensors& targets, const LoadRules& rules,
                      const std::string& source_name) {
  return Loader(file, targets, rules, source_name).load();
}

bool has_head(const StateDict& file, const LoadRules& rules) {
  const NameMatcher matcher({}, rules.base_prefix);
  for (const auto& entry : file) {
    const std::string bare = matcher.bare(entry.first);
    if (any_glob_matches(rules.own_head, bare)) return true;
    if (bare.starts_with("model.") && any_glob_matches(rules.own_head, bare.substr(6))) return true;
  }
  return false;
}

}  // namespace yoke
