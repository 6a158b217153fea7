// One command of a launch script: which program it starts, and how many processes. Internal to
// readers/.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "plan/readers/launch.h"

namespace plait {

inline constexpr int64_t kMaxProcesses = 1000000;

// Absent for a command that starts no program of the kinds in launch.h. Errors: kInvalidArgument if
// a number of processes is not known or absurd.
std::optional<Launch> read_launch_words(const std::vector<ShellWord>& words,
                                        const std::string& origin);

}  // namespace plait
