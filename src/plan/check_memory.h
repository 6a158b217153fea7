// Whether the stages of a checked job fit their devices.
#pragma once

#include <cstdint>
#include <optional>

#include "plan/check.h"

namespace plait {

// Against the chip's memory and the job's own pool. Requires: a job without errors.
MemoryVerdict judge_memory(const TrainJob& job, const Chip& chip);

// What to say of a pool that the file limits to less than a stage is predicted to need.
std::optional<CheckProblem> find_pool_problem(const ReadJob& read, const MemoryVerdict& memory,
                                              const Chip& chip);

// GiB of the largest pool that leaves the chip room for collectives and its context.
int64_t advised_pool_gib(const Chip& chip);

// The cluster that stands in where none is given: 910B for MindSpeed and MindFormers, A100-80GB for
// the others.
const char* assumed_cluster(Stack stack);

// Doubles `from` until some layout of the model and batch fits; 0: none does, or the cluster has no
// network for so many.
int least_devices(const TrainJob& job, const Cluster& cluster, int from);

}  // namespace plait
