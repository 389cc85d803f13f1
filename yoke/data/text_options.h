// Where text and labels stand in a file.
#pragma once

#include <string>

namespace yoke {

struct TextOptions {
  std::string text_column;  // empty: found by name; without a header: a number from 0
  std::string text_pair_column;
  std::string label_column;
  bool no_header = false;  // columns are numbered; two columns are text, label (either order)
  std::string encoding = "utf-8";  // any name that ICU knows
  bool skip_bad_rows = false;      // count and list them instead of an error
};

}  // namespace yoke
