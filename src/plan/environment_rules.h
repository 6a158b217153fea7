// Environment variables of launch files: ranges, syntax, and names that nothing reads.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "plan/readers/read_job.h"

namespace plait {

// Problems of the variables that a script sets for a job. Sources: HCCL's documentation of its
// environment variables, torch_npu's allocator configuration, Megatron-LM's checks.
std::vector<CheckProblem> check_environment(const ReadJob& read);

}  // namespace plait
