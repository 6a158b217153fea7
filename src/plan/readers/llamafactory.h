// LLaMA-Factory: "llamafactory-cli train FILE.yaml key=value", whose YAML holds the arguments of a
// HF Trainer program.
#pragma once

#include <string>
#include <vector>

#include "plan/readers/launch.h"

namespace plait {

// True for a YAML text with LLaMA-Factory's keys.
bool is_llamafactory(const std::string& text);

// The arguments as flags ("--key=value"): what the command line overrides stands before what the
// file says. Errors: kCorruptData for text that is no YAML, kNotFound for a file that is not there.
std::vector<ShellWord> llamafactory_flags(const Launch& launch, const std::string& origin);

// The launch that the text is for, on `devices` devices.
Launch llamafactory_launch(const std::string& text, const std::string& origin, int devices);

}  // namespace plait
