// DeepSpeed configurations (JSON), alone or as part of a launch script.
#pragma once

#include <string>

#include "plan/readers/launch.h"
#include "plan/readers/read_job.h"

namespace plait {

// Reads a configuration. The model, the devices and the sequence are not in it: `options` gives
// them. Every key is used, known to be of no account, or listed. Errors: kInvalidArgument or
// kCorruptData naming file and line.
ReadJob read_deepspeed(const std::string& text, const std::string& origin,
                       const ReadOptions& options);

// True if a launch hands a DeepSpeed configuration to a HF Trainer style program.
bool is_deepspeed_launch(const Launch& launch);

// Such a launch: the configuration (a here-document of the script, or a file beside it) with the
// program's own flags (--per_device_train_batch_size, --model_name_or_path, ...).
ReadJob read_deepspeed_launch(const Launch& launch, const ShellScript& script,
                              const ReadOptions& options);

// 1-based line of a key such as "zero_optimization.stage" in a JSON text; 0 if it is not found.
int json_key_line(const std::string& text, const std::string& path);

}  // namespace plait
