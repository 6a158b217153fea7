// The rules that a job must keep, per stack, each with where it is written.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "plan/job.h"
#include "topology/cluster.h"

namespace plait {

enum class Severity : uint8_t {
  kError,    // it does not start, or trains something else than asked for
  kWarning,  // it runs, but not as one would think
};
const char* severity_name(Severity severity);  // "error", "warning"

struct JobProblem : Problem {
  Severity severity = Severity::kError;
  std::string source;  // of the rule: documentation or code of the stack
};

// The job's precision on a chip that lacks it.
std::optional<JobProblem> find_chip_problem(const TrainJob& job, const Chip& chip);

// Errors first, in the order of the rules; find_job_problems (plan/estimate.h) returns the errors
// alone. world_size 0: unknown, not checked. Values may be anything, 0 and negative ones included.
std::vector<JobProblem> inspect_job(const TrainJob& job, int world_size);

}  // namespace plait
