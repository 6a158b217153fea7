#include "doctor/rule_texts.h"

namespace plait {

const std::vector<RuleText>& rule_texts() {
  static const std::vector<RuleText> texts = {
      {"comm.toml", fault_rules_comm_text()},
      {"setup.toml", fault_rules_setup_text()},
      {"device.toml", fault_rules_device_text()},
      {"memory.toml", fault_rules_memory_text()},
      {"operator.toml", fault_rules_operator_text()},
      {"framework.toml", fault_rules_framework_text()},
      {"training.toml", fault_rules_training_text()},
      {"tools.toml", fault_rules_tools_text()},
      {"mindspore.toml", fault_rules_mindspore_text()},
      {"host.toml", fault_rules_host_text()},
      {"serve.toml", fault_rules_serve_text()},
      {"program.toml", fault_rules_program_text()},
      {"plait.toml", fault_rules_plait_text()},
      {"generic.toml", fault_rules_generic_text()},
  };
  return texts;
}

}  // namespace plait
