// What one layout costs: memory of every pipeline stage and time of a step.
#pragma once

#include <string>
#include <vector>

#include "plan/job.h"
#include "topology/cluster.h"

namespace plait {

// A prediction and the interval that it is expected to lie in.
struct Range {
  double low = 0;
  double best = 0;
  double high = 0;
};

// Bytes on each rank of one pipeline stage.
struct StageBytes {
  double weights = 0;
  double gradients = 0;
  double optimizer = 0;
  double activations = 0;     // kept for backward, all micro-batches in flight
  double logits = 0;          // last stage: logits, their gradient, the loss
  double transient = 0;       // alive at the peak beside the above: a layer's temporaries, gathers
  double comm = 0;            // communication buffers
  double framework() const {  // what the framework's counters show at the peak
    return weights + gradients + optimizer + activations + logits + transient;
  }
  double states() const { return weights + gradients + optimizer; }
};

enum class Fit : uint8_t {
  kFits,        // the upper end of the peak is within capacity minus reserve
  kTight,       // the range straddles it
  kDoesNotFit,  // the lower end is above
};
const char* fit_name(Fit fit);  // "fits", "tight", "does not fit"

struct StageMemoryPlan {
  int stage = 0;
  double parameters = 0;  // elements on one rank
  int max_in_flight = 0;
  StageBytes bytes;
  Range peak;  // framework() + comm + fragmentation
  // What Megatron's counters report after the first step: its backward ran without the moments.
  double first_step_peak = 0;
  Fit fit = Fit::kFits;
};

// Seconds of one optimizer step, where they go on the slowest pipeline stage. The parts add up to
// step.best.
struct StepTime {
  Range step;
  double compute = 0;     // kernels, recomputation included
  double recompute = 0;   // the part of compute that recomputes
  double turns = 0;       // the part of compute that waits for cores other ranks are using
  double tp_exposed = 0;  // collectives of each axis that nothing hides
  double cp_exposed = 0;
  double ep_exposed = 0;
  double dp_exposed = 0;
  double pp_exposed = 0;
  double bubble = 0;
  double optimizer = 0;
  double host = 0;  // launch time that the device waits for
};

// Bytes that one rank sends in a step, per axis.
struct AxisTraffic {
  double tp = 0, cp = 0, ep = 0, dp = 0, pp = 0;
};

struct Estimate {
  std::vector<StageMemoryPlan> stages;
  Fit fit = Fit::kFits;  // of the worst stage
  double capacity = 0;   // bytes a stage may use: memory minus reserve
  StepTime time;
  AxisTraffic traffic;
  double tokens_per_second_per_device = 0;
  double mfu = 0;          // model FLOP (attention counted causal) over the chip's peak
  double model_flops = 0;  // of one step, all devices

  const StageMemoryPlan& worst_stage() const;  // the one with the largest peak
};

// Requires: a job without problems (find_job_problems) and devices >= layout.world_size().
Estimate estimate_job(const TrainJob& job, const Cluster& cluster);

// Memory alone: what a check needs, without a network.
std::vector<StageMemoryPlan> estimate_job_memory(const TrainJob& job, const Chip& chip);

// Every broken rule of a job: find_problems of spec/validate.h for the layout, and what the stack
// adds (ETP grids, CP padding, ZeRO-2/3 with pp, ...).
std::vector<Problem> find_job_problems(const TrainJob& job, int world_size);

// Throws kInvalidArgument with every problem of find_job_problems, one a line.
void check_job(const TrainJob& job, int world_size);

// Throws kInvalidArgument for a precision that the chip lacks.
void check_chip(const TrainJob& job, const Chip& chip);

}  // namespace plait
