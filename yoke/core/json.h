// JSON through nlohmann-json, objects in the order they were written.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace yoke {

using Json = nlohmann::ordered_json;

// Reads and parses a file. Throws Error(where, …) that names the file and the byte of the fault.
Json read_json(const std::filesystem::path& path, const std::string& where);

// Parses text; `name` stands for the file in errors. Nesting deeper than 256 is an error.
Json parse_json(std::string_view text, const std::string& name, const std::string& where);

}  // namespace yoke
