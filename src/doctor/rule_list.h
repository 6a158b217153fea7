// The rules, listed.
#pragma once

#include <string>
#include <vector>

#include "doctor/fault_rules.h"

namespace plait {

// One line a class; those of `classes` in full. Errors: kInvalidArgument for an unknown class.
std::string rules_text(const RuleSet& rules, const std::vector<std::string>& classes);

// {"classes": [{class, family, role, weight, confidence, cause, fix, explains, source}]}
std::string rules_json(const RuleSet& rules, const std::vector<std::string>& classes);

}  // namespace plait
