#include "plan/pipeline_sim.h"

#include <algorithm>
#include <limits>

#include "base/error.h"

namespace plait {
namespace {

constexpr double kNotYet = std::numeric_limits<double>::infinity();

class Simulation {
 public:
  Simulation(const ScheduleOptions& options, const PipelineCosts& costs, bool with_timeline)
      : options_(options),
        costs_(costs),
        with_timeline_(with_timeline),
        schedule_(make_schedule(options)),
        stages_(options.pp * options.vpp),
        forward_ready_(static_cast<size_t>(stages_) * static_cast<size_t>(options.num_microbatches),
                       kNotYet),
        backward_ready_(forward_ready_.size(), kNotYet),
        now_(static_cast<size_t>(options.pp)),
        next_(static_cast<size_t>(options.pp)) {
    result_.stage_busy.resize(static_cast<size_t>(options.pp));
    result_.stage_end.resize(static_cast<size_t>(options.pp));
  }

  PipelineResult run() {
    bool moved = true;
    while (moved) {
      moved = false;
      for (int stage = 0; stage < options_.pp; ++stage) {
        while (step(stage)) {
          moved = true;
        }
      }
    }
    for (size_t stage = 0; stage < next_.size(); ++stage) {
      CHECK_EQ(next_[stage], schedule_[stage].size());
      result_.seconds = std::max(result_.seconds, now_[stage]);
    }
    return std::move(result_);
  }

 private:
  size_t slot(int virtual_stage, int microbatch) const {
    return static_cast<size_t>(virtual_stage) * static_cast<size_t>(options_.num_microbatches) +
           static_cast<size_t>(microbatch);
  }

  // Runs the stage's next action; false if it is done or waits for a message not yet sent.
  bool step(int stage) {
    const auto s = static_cast<size_t>(stage);
    if (next_[s] == schedule_[s].size()) {
      return false;
    }
    const Action& action = schedule_[s][next_[s]];
    const int v = action.chunk * options_.pp + stage;
    switch (action.kind) {
      case ActionKind::kRecvForward:
      case ActionKind::kRecvBackward: {
        const auto& ready =
            action.kind == ActionKind::kRecvForward ? forward_ready_ : backward_ready_;
        const double arrival = ready[slot(v, action.microbatch)];
        if (arrival == kNotYet) {
          return false;
        }
        now_[s] = std::max(now_[s], arrival);
        break;
      }
      case ActionKind::kForward:
        work(action, v, costs_.virtual_stages[static_cast<size_t>(v)].forward, true);
        break;
      case ActionKind::kBackward: {
        const VirtualStageCost& cost = costs_.virtual_stages[static_cast<size_t>(v)];
        const bool split = options_.kind == ScheduleKind::kZeroBubbleH1;
        work(action, v, cost.backward - (split ? cost.weight_gradient : 0), false);
        break;
      }
      case ActionKind::kWeightGradient:
        work(action, v, costs_.virtual_stages[static_cast<size_t>(v)].weight_gradient, false);
        break;
      case ActionKind::kSendForward:
        send(s, forward_ready_[slot(v + 1, action.microbatch)]);
        break;
      case ActionKind::kSendBackward:
        send(s, backward_ready_[slot(v - 1, action.microbatch)]);
        break;
      case ActionKind::kReduce:
        break;
    }
    ++next_[s];
    return true;
  }

  void send(size_t stage, double& arrival) {
    arrival = now_[stage] + costs_.send_s;
    if (costs_.send_blocks) {
      now_[stage] = arrival;
    }
  }

  void work(const Action& action, int virtual_stage, double seconds, bool forward) {
    const auto s = static_cast<size_t>(virtual_stage % options_.pp);
    const double begin = now_[s];
    now_[s] += seconds;
    result_.stage_busy[s] += seconds;
    if (!forward) {
      result_.stage_end[s] = now_[s];
    }
    if (with_timeline_) {
      result_.timeline.push_back(
          {static_cast<int>(s), action.chunk, action.microbatch, forward, begin, now_[s]});
    }
  }

  const ScheduleOptions& options_;
  const PipelineCosts& costs_;
  bool with_timeline_;
  std::vector<std::vector<Action>> schedule_;
  int stages_;
  std::vector<double> forward_ready_, backward_ready_;
  std::vector<double> now_;
  std::vector<size_t> next_;
  PipelineResult result_;
};

}  // namespace

PipelineResult simulate_pipeline(const ScheduleOptions& options, const PipelineCosts& costs,
                                 bool with_timeline) {
  CHECK_EQ(costs.virtual_stages.size(), static_cast<size_t>(options.pp * options.vpp));
  return Simulation(options, costs, with_timeline).run();
}

double pipeline_lower_bound(const ScheduleOptions& options, const PipelineCosts& costs) {
  double bound = 0;
  double before = 0;  // one micro-batch through the stages in front, forward and backward
  for (int stage = 0; stage < options.pp; ++stage) {
    double busy = 0;
    for (int chunk = 0; chunk < options.vpp; ++chunk) {
      const int virtual_stage = chunk * options.pp + stage;
      const auto v = static_cast<size_t>(virtual_stage);
      busy += costs.virtual_stages[v].forward + costs.virtual_stages[v].backward;
    }
    bound = std::max(bound, before + options.num_microbatches * busy);
    // Only the first chunks lie in front of any work of the next stage. Under zb-h1 a stage may end
    // with weight gradients that nobody waits for, so nothing has to follow.
    const VirtualStageCost& first = costs.virtual_stages[static_cast<size_t>(stage)];
    before += first.forward + costs.send_s;
    if (options.kind != ScheduleKind::kZeroBubbleH1) {
      before += first.backward + costs.send_s;
    }
  }
  return bound;
}

}  // namespace plait
