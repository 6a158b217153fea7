// Pipeline schedules as data: what each stage does, in order. The trainer executes the list, the
// planner simulates it, the report draws it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "topology/layout.h"

namespace plait {

enum class ActionKind : uint8_t {
  kRecvForward,  // activations from the previous virtual stage
  kForward,
  kSendForward,     // activations to the next virtual stage; does not wait
  kRecvBackward,    // gradients from the next virtual stage
  kBackward,        // of inputs and weights; under zb-h1 of inputs alone
  kWeightGradient,  // zb-h1: the other half, when nothing waits for the stage
  kSendBackward,    // does not wait
  kReduce,          // the chunk's gradients are complete: reductions run beside the last backward
};

const char* action_name(ActionKind kind);

struct Action {
  ActionKind kind = ActionKind::kForward;
  int chunk = 0;       // on this stage; virtual stage = chunk * pp + stage
  int microbatch = 0;  // 0 for kReduce
  bool operator==(const Action&) const = default;
};

struct ScheduleOptions {
  ScheduleKind kind = ScheduleKind::kOneFOneB;
  int pp = 1;
  int vpp = 1;
  int num_microbatches = 1;
};

// Actions of every stage. gpipe: all forwards, then all backwards. 1f1b: at most pp - stage
// micro-batches in flight (Narayanan et al. 2019). interleaved: vpp chunks a stage, in groups of pp
// micro-batches (Narayanan et al. 2021); needs num_microbatches % pp == 0. zb-h1: backward split
// into input and weight gradients, the latter put off so that as many micro-batches are in flight
// as under 1f1b (Qi et al. 2023, "Zero Bubble Pipeline Parallelism", section 3.1); planned, not
// executed. Sends and receives of one direction between two stages appear in the same order on
// both. Errors: kInvalidArgument for combinations that do not exist.
std::vector<std::vector<Action>> make_schedule(const ScheduleOptions& options);

// Most micro-batch forwards of `chunk` whose backward has not run yet, at any time on this stage.
int max_in_flight(const std::vector<Action>& actions, int chunk);
// The same over all chunks of the stage together (a chunk of one micro-batch counts 1).
int max_in_flight_total(const std::vector<Action>& actions);

}  // namespace plait
