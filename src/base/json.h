// JSON, behind a forward declaration: the full header of nlohmann-json costs seconds a file, so
// only the .cc files that read or write JSON include it (through base/json_full.h).
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

namespace plait {

using Json = nlohmann::ordered_json;

// Parses `text`; `origin` (a file name) is named in the error with the byte offset. Duplicate keys
// keep the last value. Depth is bounded (128). Errors: kCorruptData.
Json parse_json(const std::string& text, const std::string& origin);

// Compact (indent < 0) or indented text; invalid UTF-8 is replaced, never thrown on.
std::string dump_json(const Json& value, int indent = -1);

// Reads and parses a file.
Json read_json(const std::string& path);

}  // namespace plait
