// Access to YAML trees that people wrote: what is absent or of another kind reads as nothing.
// Internal to plan/readers; who uses it includes yaml-cpp, which is heavy.
#pragma once

#include <string>
#include <vector>

namespace YAML {
class Exception;
class Node;
}  // namespace YAML

namespace plait {

// The value of a map's key; Null if `map` is no map or lacks it.
YAML::Node yaml_child(const YAML::Node& map, const char* key);
// The scalar of a map's key; empty if there is none.
std::string yaml_scalar(const YAML::Node& map, const char* key);
// All documents of a stream. Errors: YAML::Exception.
std::vector<YAML::Node> yaml_documents(const std::string& text);
// kCorruptData, naming file and line.
[[noreturn]] void throw_yaml_error(const std::string& origin, const YAML::Exception& error);

}  // namespace plait
