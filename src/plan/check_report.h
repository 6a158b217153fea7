// The result of plait plan check as text and as JSON.
#pragma once

#include <string>

#include "plan/check.h"

namespace plait {

// Problems first, each with its place, rule, remedy and source; then memory, the proposal, what was
// assumed and what was not read.
std::string check_report_text(const CheckReport& report);
std::string check_report_json(const CheckReport& report);

}  // namespace plait
