// The flags of Megatron-LM and MindSpeed command lines: names, and how many values each takes.
#pragma once

#include <string>
#include <string_view>

#include "plan/readers/flag_set.h"

namespace plait {

// Names without dashes, separated by blanks, by the number of values that they take.
struct FlagNames {
  std::string_view none;
  std::string_view one;
  std::string_view many;
};
FlagNames megatron_flag_names();
FlagNames mindspeed_flag_names();

// All of them. `is_vendor` of MindSpeed's.
const FlagTable& megatron_flags();

}  // namespace plait
