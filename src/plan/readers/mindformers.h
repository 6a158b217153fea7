// MindFormers run files (YAML).
#pragma once

#include <string>

#include "plan/readers/read_job.h"

namespace plait {

// Reads parallel_config, parallel, runner_config, recompute_config, moe_config,
// context.max_device_memory and model.model_config (or model_config at the top), on top of the
// files that base_config names. Every key of these is used, known to be of no account, or listed.
// Errors: kInvalidArgument, kCorruptData, or kNotFound for a base, naming file and line.
ReadJob read_mindformers(const std::string& text, const std::string& origin,
                         const ReadOptions& options);

}  // namespace plait
