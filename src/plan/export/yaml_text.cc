#include "plan/export/yaml_text.h"

#include <yaml-cpp/yaml.h>

namespace plait {
namespace {

void emit(YAML::Emitter& out, const YAML::Node& node) {
  if (node.IsMap()) {
    out << YAML::BeginMap;
    for (const auto& entry : node) {
      out << YAML::Key << entry.first.Scalar() << YAML::Value;
      emit(out, entry.second);
    }
    out << YAML::EndMap;
  } else if (node.IsSequence()) {
    if (node.Style() == YAML::EmitterStyle::Flow) {
      out << YAML::Flow;
    }
    out << YAML::BeginSeq;
    for (const YAML::Node& item : node) {
      emit(out, item);
    }
    out << YAML::EndSeq;
  } else if (node.IsScalar()) {
    const std::string& text = node.Scalar();
    if (text.find('\n') != std::string::npos) {
      out << YAML::Literal;
    } else if (node.Tag() == "!" || text.empty()) {
      out << YAML::DoubleQuoted;
    }
    out << text;
  } else {
    out << YAML::Null;
  }
}

}  // namespace

YAML::Node yaml_string(const std::string& text) {
  YAML::Node node(text);
  node.SetTag("!");
  return node;
}

YAML::Node yaml_list(std::initializer_list<YAML::Node> items) {
  YAML::Node list(YAML::NodeType::Sequence);
  for (const YAML::Node& item : items) {
    list.push_back(item);
  }
  return list;
}

YAML::Node yaml_flow(YAML::Node list) {
  list.SetStyle(YAML::EmitterStyle::Flow);
  return list;
}

std::string yaml_text(const YAML::Node& document) {
  YAML::Emitter out;
  out.SetIndent(2);
  emit(out, document);
  return std::string(out.c_str()) + "\n";
}

}  // namespace plait
