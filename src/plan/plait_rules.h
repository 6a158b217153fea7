// Where plait's own trainer differs from Megatron in time. Its kernels run on the host's cores, so
// a call costs the host what it takes, and collectives copy through shared memory.
#pragma once

#include "plan/layer_work.h"
#include "plan/parameter_split.h"
#include "plan/time_model.h"
#include "topology/cluster.h"

namespace plait {

// How many of an operator's forward passes backward repeats. Selective recomputation redoes what
// costs no matrix product (spec/activation_table.h); full recomputation everything but what makes
// the layer's output: the down projection and the addition behind it.
double plait_redone(const TrainJob& job, const Operator& op, Recompute recompute);
// The same for a collective, all its forward runs together.
double plait_redone(const Collective& collective, Recompute recompute);

// The head's backward runs with its forward, in the forward of the last stage.
StageTime plait_head(const StageTime& head);

// The norm of the gradients and AdamW, on the rank's shard.
double plait_optimizer_seconds(const TrainJob& job, const Cluster& cluster,
                               const StageParameters& parameters);

// The chip as a rank beside others on the cores of its server finds it (Cluster::core_share,
// Cluster::speed_share).
Chip chip_of_rank(const Cluster& cluster);

}  // namespace plait
