// DeepSpeed configurations (JSON).
#pragma once

#include <string>

#include "plan/readers/read_job.h"

namespace plait {

// Reads a configuration. The model, the devices and the sequence are not in it: `options` gives
// them. Every key is used, known to be of no account, or listed. Errors: kInvalidArgument or
// kCorruptData naming file and line.
ReadJob read_deepspeed(const std::string& text, const std::string& origin,
                       const ReadOptions& options);

// 1-based line of a key such as "zero_optimization.stage" in a JSON text; 0 if it is not found.
int json_key_line(const std::string& text, const std::string& path);

}  // namespace plait
