// Time of one optimizer step: a roofline per operator, alpha-beta collectives, and the schedule
// simulated action by action.
#pragma once

#include <array>
#include <vector>

#include "plan/estimate.h"
#include "plan/parameter_split.h"
#include "plan/pipeline_sim.h"

namespace plait {

// Seconds of one micro-batch on one rank, in one direction.
struct PhaseTime {
  double compute = 0;
  double recompute = 0;
  double tp = 0, cp = 0, ep = 0;
  double host = 0;             // launch time beyond what the device is busy
  double weight_gradient = 0;  // of compute: products for weight gradients

  double total() const { return compute + recompute + tp + cp + ep + host; }
  PhaseTime& operator+=(const PhaseTime& other);
  PhaseTime operator*(double factor) const;
};

struct StageTime {
  PhaseTime forward, backward;
};

// What the time of a job is made of, before the schedule is run.
struct TimeParts {
  std::vector<StageTime> virtual_stages;
  double send_s = 0;
  std::vector<double> dp_reduce_s;  // per pipeline stage: gradients over dp x cp
  std::vector<double> dp_gather_s;  // parameters back, with a sharded optimizer
  std::vector<double> optimizer_s;  // per pipeline stage
  double core_share = 1;            // Cluster::core_share()
  bool overlaps = true;             // communication can run beside compute
};

// Of one layer and of the head. Depends on the model, the micro batch, tp, cp, ep, sp and the
// recompute mode; not on pp, dp, vpp.
struct TimeCosts {
  std::array<StageTime, 2> kept, redone;  // by LayerType; redone: the layer is recomputed
  StageTime head;
};
TimeCosts time_costs(const TrainJob& job, const Cluster& cluster);

TimeParts time_parts(const TrainJob& job, const Cluster& cluster, const TimeCosts& costs,
                     const StageSplit& split);

PipelineCosts pipeline_costs(const TrainJob& job, const TimeParts& parts);
ScheduleOptions schedule_options(const TrainJob& job);

// A time that the step cannot beat.
double step_lower_bound(const TrainJob& job, const TimeParts& parts);

// Gradient reduction and parameter gather of a stage that nothing hides.
double exposed_dp(const TrainJob& job, const TimeParts& parts, size_t stage);

StepTime step_time(const TrainJob& job, const TimeParts& parts, double uncertainty);

AxisTraffic axis_traffic(const TrainJob& job, const StageSplit& split);

}  // namespace plait
