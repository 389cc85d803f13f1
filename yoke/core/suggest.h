// "Did you mean": the nearest of some names, for errors.
#pragma once

#include <string>
#include <vector>

namespace yoke {

// The candidate with the smallest edit distance to `name` (transpositions count one), or "" when
// none is within a third of its length.
std::string nearest_name(const std::string& name, const std::vector<std::string>& candidates);

// "a, b, c" with at most `limit` names, then ", … (12 more)".
std::string join_names(const std::vector<std::string>& names, size_t limit = 8);

}  // namespace yoke
