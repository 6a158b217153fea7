// Parameters of each pipeline stage on one rank, from the parameter table.
#pragma once

#include <vector>

#include "plan/job.h"
#include "spec/parameter_counts.h"

namespace plait {

struct StageParameters {
  double dense = 0;    // elements sharded over dp x cp by a distributed optimizer
  double expert = 0;   // elements of routed experts
  double largest = 0;  // elements of the largest matrix
  double total() const { return dense + expert; }
};

// Layers of one virtual stage.
struct StageLayers {
  int64_t dense = 0;
  int64_t moe = 0;
};

// How many of `layers` layers of one virtual stage (chunk * pp + stage) full recomputation redoes.
double recomputed_layers(const TrainJob& job, size_t virtual_stage, double layers);

std::vector<StageLayers> virtual_stage_layers(const TrainJob& job);

// The parameter table added up for the job's tp, ep and etp.
ModelCounts section_counts(const TrainJob& job);

// What each stage holds.
struct StageSplit {
  std::vector<StageLayers> layers;          // per virtual stage
  std::vector<StageParameters> parameters;  // per pipeline stage
  double capacity = 0;                      // bytes a stage may use
};
StageSplit stage_split(const TrainJob& job, const ModelCounts& counts);

// Ranks that share the optimizer states of dense and of expert parameters (training.md section 3).
double dense_shards(const TrainJob& job);
double expert_shards(const TrainJob& job);

}  // namespace plait
