// Whether the stages of a checked job fit their devices.
#pragma once

#include "plan/check.h"

namespace plait {

// Requires: a job without errors.
MemoryVerdict judge_memory(const TrainJob& job, const Chip& chip);

// The cluster that stands in where none is given: 910B for MindSpeed and MindFormers, A100-80GB for
// the others.
const char* assumed_cluster(Stack stack);

// Doubles `from` until some layout of the model and batch fits; 0: none does, or the cluster has no
// network for so many.
int least_devices(const TrainJob& job, const Cluster& cluster, int from);

}  // namespace plait
