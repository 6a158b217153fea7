// MindFormers run files (YAML).
#pragma once

#include <string>

#include "plan/readers/read_job.h"

namespace plait {

// Reads parallel_config, parallel, runner_config, recompute_config, moe_config and
// model.model_config. Every key of these is used, known to be of no account, or listed. Errors:
// kInvalidArgument or kCorruptData naming file and line.
ReadJob read_mindformers(const std::string& text, const std::string& origin,
                         const ReadOptions& options);

}  // namespace plait
