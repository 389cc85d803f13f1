#include "yoke/core/json.h"

#include "yoke/core/error.h"
#include "yoke/core/file.h"

namespace yoke {
namespace {

constexpr int max_depth = 256;

// nlohmann's parser is iterative but its destructor and our own walks are not: bound the depth.
void check_depth(std::string_view text, const std::string& name, const std::string& where) {
  int depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') {
        ++i;
      } else if (c == '"') {
        in_string = false;
      }
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      if (++depth > max_depth)
        throw Error(where, name + ": JSON is nested deeper than " + std::to_string(max_depth));
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
}

}  // namespace

Json parse_json(std::string_view text, const std::string& name, const std::string& where) {
  check_depth(text, name, where);
  try {
    return Json::parse(text);
  } catch (const nlohmann::json::parse_error& e) {
    throw Error(where, name + ": not valid JSON at byte " + std::to_string(e.byte),
                "a complete copy of the file");
  }
}

Json read_json(const std::filesystem::path& path, const std::string& where) {
  return parse_json(read_file(path, where), path.string(), where);
}

}  // namespace yoke
