// The rule files that are part of the program.
#pragma once

#include <string_view>
#include <vector>

namespace plait {

struct RuleText {
  const char* name;
  std::string_view text;
};

// catalog/fault_rules/*.toml.
const std::vector<RuleText>& rule_texts();

// Each generated from the file of its name.
std::string_view fault_rules_comm_text();
std::string_view fault_rules_setup_text();
std::string_view fault_rules_device_text();
std::string_view fault_rules_memory_text();
std::string_view fault_rules_operator_text();
std::string_view fault_rules_framework_text();
std::string_view fault_rules_mindspore_text();
std::string_view fault_rules_host_text();
std::string_view fault_rules_serve_text();
std::string_view fault_rules_tools_text();
std::string_view fault_rules_training_text();
std::string_view fault_rules_program_text();
std::string_view fault_rules_plait_text();
std::string_view fault_rules_generic_text();
// catalog/fault_codes.csv.
std::string_view fault_codes_text();

}  // namespace plait
