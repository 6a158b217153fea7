// Megatron-LM and MindSpeed(-LLM) command lines as training jobs.
#pragma once

#include "plan/readers/launch.h"
#include "plan/readers/read_job.h"

namespace plait {

// Reads the flags of a launch. Every flag is known, listed as unknown, or an error; what a flag
// leaves open takes Megatron-LM's default, and what the flags cannot tell (the vocabulary of a
// tokenizer) is assumed and said. Errors: kInvalidArgument naming file and line.
ReadJob read_megatron(const Launch& launch, const std::string& origin, const ReadOptions& options);

}  // namespace plait
