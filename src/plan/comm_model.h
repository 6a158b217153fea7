// Where the groups of a job's axes are on the cluster.
#pragma once

#include "plan/layer_work.h"
#include "topology/collective_model.h"

namespace plait {

// The group of an axis under the job's order of ranks; ep inside cp x dp (x tp beyond etp).
GroupPlace group_place(const TrainJob& job, CommAxis axis);

}  // namespace plait
