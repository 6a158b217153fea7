// YAML documents from trees of nodes. Internal to plan/export; who uses it includes yaml-cpp, which
// is heavy.
#pragma once

#include <initializer_list>
#include <string>

namespace YAML {
class Node;
}

namespace plait {

// A scalar that stays a string where it looks like something else ("8", "true").
YAML::Node yaml_string(const std::string& text);
// A block list.
YAML::Node yaml_list(std::initializer_list<YAML::Node> items);
// [a, b, c] on one line.
YAML::Node yaml_flow(YAML::Node list);

// Maps keep their order; text of several lines becomes a literal block.
std::string yaml_text(const YAML::Node& document);

}  // namespace plait
