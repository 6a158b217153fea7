// Finds the training or serving program that a launch script starts, and how many processes of it.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "plan/readers/shell.h"

namespace plait {

enum class ProgramKind : uint8_t {
  kPython,  // a script: pretrain_gpt.py, train.py
  kVllm,    // vllm serve, python -m vllm.entrypoints...
  kSwift,   // megatron sft (ms-swift)
  kPlait,   // plait train
  kPlain,   // bare flags
};

struct Launch {
  ProgramKind kind = ProgramKind::kPython;
  std::string launcher;  // "torchrun", "msrun", "deepspeed", ...
  std::string program;   // "pretrain_gpt.py"
  // Processes: servers * per_server, or world; 0: the launcher does not say.
  int64_t servers = 0;
  int64_t per_server = 0;
  int64_t world = 0;
  bool asks_machine = false;  // kAssumedDevices stands for what the machine will answer
  SourceLine world_where;
  std::vector<ShellWord> arguments;           // of the program
  std::vector<ShellWord> launcher_arguments;  // of "accelerate launch" and the like
  std::map<std::string, ShellWord> environment;
  int line = 0;
  // An option that begins a line of its own behind the command: the line before lacks its '\\'.
  std::optional<ShellWord> stray_option;
  bool in_container = false;  // docker run and the like stand in front
  bool joins_ray = false;     // the script starts Ray: devices of other servers count
  std::vector<Note> notes;

  int64_t world_size() const { return world > 0 ? world : servers * per_server; }
};

// The last command that launches something plait can judge; absent if there is none. Errors:
// kInvalidArgument if its number of processes is not known or absurd.
std::optional<Launch> find_launch(const ShellScript& script);

// True if a variable is one of Ascend's software.
bool has_ascend_variables(const std::map<std::string, ShellWord>& environment);

// Devices in a list such as "0,1,3".
int64_t count_listed(const std::string& list);

inline constexpr int64_t kAssumedDevices = 8;

// Devices of a server as the program sees them: those that *_VISIBLE_DEVICES lists, or
// kAssumedDevices and a note.
int64_t count_shown_devices(const Launch& launch, const std::string& origin,
                            std::vector<Note>& notes);

// Plain arguments: flags without a launcher, or a whole command line.
Launch plain_launch(const std::vector<std::string>& words);

}  // namespace plait
