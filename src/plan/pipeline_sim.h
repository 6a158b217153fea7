// Runs a pipeline schedule on paper: the list that the trainer executes, with a duration for every
// action.
#pragma once

#include <vector>

#include "spec/schedule.h"

namespace plait {

// Seconds of one micro-batch in one virtual stage (model order).
struct VirtualStageCost {
  double forward = 0;
  double backward = 0;
  double weight_gradient = 0;  // the part of backward that zb-h1 can put off
};

struct PipelineCosts {
  std::vector<VirtualStageCost> virtual_stages;  // pp * vpp
  double send_s = 0;                             // one message to the next stage, either direction
  bool send_blocks = true;  // the sender's device waits for it (Megatron without p2p overlap)
};

// One executed forward or backward.
struct TimelineEntry {
  int stage = 0;
  int chunk = 0;
  int microbatch = 0;
  bool forward = true;
  double begin = 0, end = 0;
};

struct PipelineResult {
  double seconds = 0;                   // until the last stage has done its last action
  std::vector<double> stage_busy;       // forward and backward of each stage
  std::vector<double> stage_end;        // when it has done its last backward
  std::vector<TimelineEntry> timeline;  // empty unless asked for
};

// Requires: a schedule of make_schedule with the same options.
PipelineResult simulate_pipeline(const ScheduleOptions& options, const PipelineCosts& costs,
                                 bool with_timeline = false);

// A time that no order of these actions can beat: the slowest stage's work behind the shortest way
// to it and back (forward of the stages before it, their backward after it).
double pipeline_lower_bound(const ScheduleOptions& options, const PipelineCosts& costs);

}  // namespace plait
