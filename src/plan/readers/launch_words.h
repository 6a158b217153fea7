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

// The same without its numbers, for looking whether a command launches anything: no errors.
struct LaunchLook {
  std::optional<Launch> launch;
  bool has_bad_count = false;  // a known one that is no number: the words may be prose
};
LaunchLook look_at_words(const std::vector<ShellWord>& words, const std::string& origin);

// True for a word that is known, or whose last part is: "$VENV/bin/torchrun".
bool names_program(const ShellWord& word);

}  // namespace plait
