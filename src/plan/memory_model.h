// Memory of one pipeline stage from costs that many layouts share.
#pragma once

#include <array>

#include "plan/estimate.h"
#include "plan/parameter_split.h"

namespace plait {

// Bytes of one layer per micro-batch.
struct LayerBytes {
  double kept = 0;        // under the job's recompute mode; without any for kFull
  double redone = 0;      // kept by a layer that is recomputed
  double activation = 0;  // of kept: the output of an activation function
  double working = 0;     // alive while one layer runs backward
};

// Depends on the model, the micro batch, tp, cp, ep, sp and the recompute mode; not on pp, dp, vpp.
struct MemoryCosts {
  std::array<LayerBytes, 2> layer;  // by LayerType
  double head = 0;
  double logits = 0;
};

MemoryCosts memory_costs(const TrainJob& job);

// Not for Stack::kPlait, whose memory spec/memory_estimate.h knows.
StageMemoryPlan plan_stage_memory(const TrainJob& job, const MemoryCosts& costs,
                                  const StageSplit& split, int stage);

}  // namespace plait
