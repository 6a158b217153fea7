#include "plan/readers/yaml_node.h"

#include <sstream>

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include "base/error.h"

namespace plait {
namespace {

// Refuses a stream in which a document begins where the last one began: yaml-cpp 0.7 does not get
// past a token that no document begins with (a comma, say), and makes empty documents of it until
// memory is full.
class Progress final : public YAML::EventHandler {
 public:
  void OnDocumentStart(const YAML::Mark& mark) override {
    if (mark.pos == last_) {
      throw YAML::ParserException(mark, "no document begins like this");
    }
    last_ = mark.pos;
  }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& /*mark*/, YAML::anchor_t /*anchor*/) override {}
  void OnAlias(const YAML::Mark& /*mark*/, YAML::anchor_t /*anchor*/) override {}
  void OnScalar(const YAML::Mark& /*mark*/, const std::string& /*tag*/, YAML::anchor_t /*anchor*/,
                const std::string& /*value*/) override {}
  void OnSequenceStart(const YAML::Mark& /*mark*/, const std::string& /*tag*/,
                       YAML::anchor_t /*anchor*/, YAML::EmitterStyle::value /*style*/) override {}
  void OnSequenceEnd() override {}
  void OnMapStart(const YAML::Mark& /*mark*/, const std::string& /*tag*/, YAML::anchor_t /*anchor*/,
                  YAML::EmitterStyle::value /*style*/) override {}
  void OnMapEnd() override {}

 private:
  int last_ = -1;
};

}  // namespace

YAML::Node yaml_child(const YAML::Node& map, const char* key) {
  return map.IsMap() && map[key] ? map[key] : YAML::Node(YAML::NodeType::Null);
}

std::string yaml_scalar(const YAML::Node& map, const char* key) {
  const YAML::Node node = yaml_child(map, key);
  return node.IsScalar() ? node.Scalar() : "";
}

void throw_yaml_error(const std::string& origin, const YAML::Exception& error) {
  throw_error(ErrorCode::kCorruptData, "{}:{}: is no YAML: {}", origin,
              error.mark.is_null() ? 0 : error.mark.line + 1, error.msg);
}

std::vector<YAML::Node> yaml_documents(const std::string& text) {
  std::istringstream stream(text);
  YAML::Parser parser(stream);
  Progress progress;
  while (parser.HandleNextDocument(progress)) {
  }
  return YAML::LoadAll(text);
}

}  // namespace plait
