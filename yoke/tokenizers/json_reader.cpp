#include "yoke/tokenizers/json_reader.h"

#include <fmt/format.h>

#include <utility>

#include "yoke/core/error.h"
#include "yoke/core/suggest.h"

namespace yoke {

JsonReader::JsonReader(const Json& json, std::string file, std::string place)
    : json_(json), file_(std::move(file)), place_(std::move(place)) {
  if (!json_.is_object()) fail(std::string("is ") + json_.type_name() + ", expected an object");
}

void JsonReader::fail(const std::string& what) const {
  throw Error("tokenizer.load", fmt::format("{}: {}: {}", file_, place_, what));
}

void JsonReader::fail_type(const std::string& type, const std::vector<std::string>& known) const {
  const std::string nearest = nearest_name(type, known);
  throw Error("tokenizer.load",
              fmt::format("{}: {} is of type \"{}\", which yoke does not know; known: {}", file_,
                          place_, type, join_names(known, 20)),
              nearest.empty() ? "a tokenizer of a family that yoke knows" : nearest);
}

void JsonReader::wrong(const char* key, const char* expected) const {
  const auto found = json_.find(key);
  fail(found == json_.end()
           ? fmt::format("\"{}\" is missing", key)
           : fmt::format("\"{}\" is {}, expected {}", key, found->type_name(), expected));
}

bool JsonReader::has(const char* key) const {
  const auto found = json_.find(key);
  return found != json_.end() && !found->is_null();
}

const Json& JsonReader::at(const char* key) const {
  static const Json null;
  const auto found = json_.find(key);
  return found == json_.end() ? null : *found;
}

std::string JsonReader::string(const char* key) const {
  const Json& value = at(key);
  if (!value.is_string()) wrong(key, "a string");
  return value.get<std::string>();
}

std::string JsonReader::string_or(const char* key, const std::string& value) const {
  return has(key) ? string(key) : value;
}

bool JsonReader::boolean(const char* key) const {
  const Json& value = at(key);
  if (!value.is_boolean()) wrong(key, "true or false");
  return value.get<bool>();
}

bool JsonReader::boolean_or(const char* key, bool value) const {
  return has(key) ? boolean(key) : value;
}

int64_t JsonReader::integer(const char* key, int64_t low, int64_t high) const {
  const Json& value = at(key);
  if (!value.is_number_integer()) wrong(key, "an integer");
  const bool too_big = value.is_number_unsigned() && value.get<uint64_t>() > uint64_t{INT64_MAX};
  const int64_t number = too_big ? INT64_MAX : value.get<int64_t>();
  if (number < low || number > high)
    fail(fmt::format("\"{}\" is {}, expected {} to {}", key, value.dump(), low, high));
  return number;
}

const Json& JsonReader::array(const char* key) const {
  const Json& value = at(key);
  if (!value.is_array()) wrong(key, "an array");
  return value;
}

const Json& JsonReader::object(const char* key) const {
  const Json& value = at(key);
  if (!value.is_object()) wrong(key, "an object");
  return value;
}

}  // namespace yoke
