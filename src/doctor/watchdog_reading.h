// What the watchdogs of torch.distributed (NCCL's and HCCL's) and HCCL's own reports of tasks say
// together about a stuck job, as lines that the rules match.
#pragma once

#include <string>
#include <vector>

#include "doctor/fault_rules.h"
#include "doctor/log_scan.h"

namespace plait {

// One line a fact, "plait watchdogs: ..." (of HCCL's tasks "plait tasks: ...") with its time first:
// a rank that called another operation than the others under the same number, a rank that is behind
// the operation that the others wait in, a group whose first operation never ended. Empty if
// nothing of that can be told.
std::string describe_watchdogs(const std::vector<ScannedFile>& files, const RuleSet& rules);

}  // namespace plait
