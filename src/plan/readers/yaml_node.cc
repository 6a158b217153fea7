#include "plan/readers/yaml_node.h"

#include <yaml-cpp/yaml.h>

namespace plait {

YAML::Node yaml_child(const YAML::Node& map, const char* key) {
  return map.IsMap() && map[key] ? map[key] : YAML::Node(YAML::NodeType::Null);
}

std::string yaml_scalar(const YAML::Node& map, const char* key) {
  const YAML::Node node = yaml_child(map, key);
  return node.IsScalar() ? node.Scalar() : "";
}

}  // namespace plait
