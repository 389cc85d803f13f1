// Which of a model's names a file's name means.
#pragma once

#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

namespace yoke {

// "*" stands for any text, everything else for itself.
bool glob_match(std::string_view pattern, std::string_view text);
bool any_glob_matches(const std::vector<std::string>& patterns, std::string_view text);

struct NameMatch {
  std::string target;  // empty: none
  // Wrapper parts that were dropped, each with the path before it in the file's own spelling.
  std::vector<std::pair<std::string, std::string>> dropped;
  enum class Prefix { as_it_is, added, removed } prefix = Prefix::as_it_is;
  bool old_norm_name = false;  // gamma, beta
};

class NameMatcher {
 public:
  NameMatcher(const std::vector<std::string>& targets, std::string base_prefix);

  // The reading with the fewest changes that is one of the model's names.
  NameMatch match(const std::string& name) const;
  // The name without any wrapper part and without the base prefix, for names that match nothing.
  std::string bare(const std::string& name) const;

 private:
  std::unordered_set<std::string> targets_;
  const std::string prefix_;
};

}  // namespace yoke
