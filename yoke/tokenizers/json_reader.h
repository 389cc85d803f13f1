// Fields of a JSON object with errors that name file, place, key and what was expected.
//
//   const JsonReader reader(json["normalizer"], "tokenizer.json", "normalizer");
//   const bool lowercase = reader.boolean_or("lowercase", true);
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "yoke/core/json.h"

namespace yoke {

class JsonReader {
 public:
  // `json` must outlive the reader. `place` is the path inside the file. Throws unless an object.
  JsonReader(const Json& json, std::string file, std::string place);

  const Json& json() const { return json_; }
  // Present and not null.
  bool has(const char* key) const;
  std::string string(const char* key) const;
  std::string string_or(const char* key, const std::string& value) const;
  bool boolean(const char* key) const;
  bool boolean_or(const char* key, bool value) const;
  // In [low, high].
  int64_t integer(const char* key, int64_t low, int64_t high) const;
  const Json& array(const char* key) const;
  const Json& object(const char* key) const;

  [[noreturn]] void fail(const std::string& what) const;
  [[noreturn]] void fail_type(const std::string& type, const std::vector<std::string>& known) const;

 private:
  const Json& at(const char* key) const;
  [[noreturn]] void wrong(const char* key, const char* expected) const;

  const Json& json_;
  std::string file_, place_;
};

}  // namespace yoke
