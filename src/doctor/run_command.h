// Runs a program and reads what it prints.
#pragma once

#include <string>
#include <vector>

namespace plait {

struct CommandResult {
  bool started = false;  // false: not on PATH
  bool timed_out = false;
  int status = -1;     // exit status
  std::string output;  // both streams, at most 4 MiB
};

// `words[0]` is looked for on PATH and in /usr/local/Ascend/driver/tools. Standard input is empty.
CommandResult run_command(const std::vector<std::string>& words, double limit_s);

// The same with standard output in a new file; `output` is then the other stream alone.
CommandResult run_command_into(const std::string& path, const std::vector<std::string>& words,
                               double limit_s);

}  // namespace plait
