// Whether the stages of a checked job fit their devices.
#pragma once

#include "plan/check.h"

namespace plait {

// Requires: a job without errors.
MemoryVerdict judge_memory(const TrainJob& job, const Chip& chip);

// The cluster that stands in where none is given: 910B for MindSpeed and MindFormers, A100-80GB for
// the others.
const char* assumed_cluster(Stack stack);

}  // namespace plait
