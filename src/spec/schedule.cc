#include "spec/schedule.h"

#include <algorithm>

#include "base/error.h"

namespace plait {
namespace {

// The order of forwards and backwards on one stage, before transfers are added.
struct Compute {
  ActionKind kind = ActionKind::kForward;
  int chunk = 0;
  int microbatch = 0;
};

std::vector<Compute> gpipe_order(int num_microbatches) {
  std::vector<Compute> order;
  for (int mb = 0; mb < num_microbatches; ++mb) {
    order.push_back({ActionKind::kForward, 0, mb});
  }
  for (int mb = 0; mb < num_microbatches; ++mb) {
    order.push_back({ActionKind::kBackward, 0, mb});
  }
  return order;
}

std::vector<Compute> one_f_one_b_order(int pp, int stage, int num_microbatches) {
  std::vector<Compute> order;
  const int warmup = std::min(num_microbatches, pp - stage - 1);
  int forward = 0;
  int backward = 0;
  while (forward < warmup) {
    order.push_back({ActionKind::kForward, 0, forward++});
  }
  while (forward < num_microbatches) {
    order.push_back({ActionKind::kForward, 0, forward++});
    order.push_back({ActionKind::kBackward, 0, backward++});
  }
  while (backward < num_microbatches) {
    order.push_back({ActionKind::kBackward, 0, backward++});
  }
  return order;
}

// The k-th forward (or backward) of a stage under interleaving: groups of pp micro-batches run
// through all chunks before the next group starts.
Compute interleaved_step(const ScheduleOptions& options, int k, ActionKind kind) {
  const bool forward = kind == ActionKind::kForward;
  const int group = k / (options.pp * options.vpp);
  const int within = k % (options.pp * options.vpp);
  const int chunk = within / options.pp;
  return {kind, forward ? chunk : options.vpp - 1 - chunk,
          group * options.pp + within % options.pp};
}

std::vector<Compute> interleaved_order(const ScheduleOptions& options, int stage) {
  std::vector<Compute> order;
  const int total = options.num_microbatches * options.vpp;
  const int warmup = std::min(total, (options.pp - stage - 1) * 2 + (options.vpp - 1) * options.pp);
  int forward = 0;
  int backward = 0;
  while (forward < warmup) {
    order.push_back(interleaved_step(options, forward++, ActionKind::kForward));
  }
  while (forward < total) {
    order.push_back(interleaved_step(options, forward++, ActionKind::kForward));
    order.push_back(interleaved_step(options, backward++, ActionKind::kBackward));
  }
  while (backward < total) {
    order.push_back(interleaved_step(options, backward++, ActionKind::kBackward));
  }
  return order;
}

// As 1f1b, with the weight gradients of stage i put off by i micro-batches: stage i then holds
// pp - i activations and i inputs of weight gradients, as many together as the first stage of 1f1b.
// While the pipeline drains, weight gradients fill the waits.
std::vector<Compute> zero_bubble_order(int pp, int stage, int num_microbatches) {
  std::vector<Compute> order;
  int weight = 0;
  int backward = 0;
  for (const Compute& step : one_f_one_b_order(pp, stage, num_microbatches)) {
    order.push_back(step);
    if (step.kind == ActionKind::kBackward) {
      ++backward;
      if (backward - weight > stage) {
        order.push_back({ActionKind::kWeightGradient, 0, weight++});
      }
    }
  }
  while (weight < num_microbatches) {
    order.push_back({ActionKind::kWeightGradient, 0, weight++});
  }
  return order;
}

// Adds receives, sends and reductions around the computations.
std::vector<Action> with_transfers(const ScheduleOptions& options, int stage,
                                   const std::vector<Compute>& order) {
  const int last = options.pp * options.vpp - 1;
  // What completes a micro-batch's gradients.
  const ActionKind final = options.kind == ScheduleKind::kZeroBubbleH1 ? ActionKind::kWeightGradient
                                                                       : ActionKind::kBackward;
  std::vector<int> left(static_cast<size_t>(options.vpp), options.num_microbatches);
  std::vector<Action> actions;
  for (const Compute& step : order) {
    const int virtual_stage = step.chunk * options.pp + stage;
    const auto add = [&](ActionKind kind) {
      actions.push_back({kind, step.chunk, step.microbatch});
    };
    if (step.kind == ActionKind::kForward) {
      if (virtual_stage > 0) {
        add(ActionKind::kRecvForward);
      }
      add(ActionKind::kForward);
      if (virtual_stage < last) {
        add(ActionKind::kSendForward);
      }
      continue;
    }
    const bool backward = step.kind == ActionKind::kBackward;
    if (backward && virtual_stage < last) {
      add(ActionKind::kRecvBackward);
    }
    add(step.kind);
    if (backward && virtual_stage > 0) {
      add(ActionKind::kSendBackward);
    }
    if (step.kind == final && --left[static_cast<size_t>(step.chunk)] == 0) {
      actions.push_back({ActionKind::kReduce, step.chunk, 0});
    }
  }
  return actions;
}

int max_in_flight_of(const std::vector<Action>& actions, int chunk) {
  // Activations go when the weight gradient has read them, where that is an action of its own.
  const bool split = std::any_of(actions.begin(), actions.end(), [](const Action& action) {
    return action.kind == ActionKind::kWeightGradient;
  });
  const ActionKind release = split ? ActionKind::kWeightGradient : ActionKind::kBackward;
  int now = 0;
  int most = 0;
  for (const Action& action : actions) {
    if (chunk >= 0 && action.chunk != chunk) {
      continue;
    }
    if (action.kind == ActionKind::kForward) {
      most = std::max(most, ++now);
    } else if (action.kind == release) {
      --now;
    }
  }
  return most;
}

}  // namespace

const char* action_name(ActionKind kind) {
  static constexpr const char* kNames[] = {"recv_forward",  "forward",  "send_forward",
                                           "recv_backward", "backward", "weight_gradient",
                                           "send_backward", "reduce"};
  return kNames[static_cast<size_t>(kind)];
}

std::vector<std::vector<Action>> make_schedule(const ScheduleOptions& options) {
  if (options.kind == ScheduleKind::kInterleaved) {
    if (options.pp < 2 || options.num_microbatches % options.pp != 0) {
      throw_error(ErrorCode::kInvalidArgument,
                  "schedule 'interleaved' needs pp > 1 and a number of micro-batches that is a "
                  "multiple of pp; got pp={} and {} micro-batches",
                  options.pp, options.num_microbatches);
    }
  } else if (options.vpp != 1) {
    throw_error(ErrorCode::kInvalidArgument, "vpp={} needs the schedule 'interleaved', not '{}'",
                options.vpp, schedule_name(options.kind));
  }
  CHECK_GE(options.num_microbatches, 1);
  std::vector<std::vector<Action>> schedule;
  for (int stage = 0; stage < options.pp; ++stage) {
    std::vector<Compute> order;
    switch (options.kind) {
      case ScheduleKind::kGpipe:
        order = gpipe_order(options.num_microbatches);
        break;
      case ScheduleKind::kOneFOneB:
        order = one_f_one_b_order(options.pp, stage, options.num_microbatches);
        break;
      case ScheduleKind::kInterleaved:
        order = interleaved_order(options, stage);
        break;
      case ScheduleKind::kZeroBubbleH1:
        order = zero_bubble_order(options.pp, stage, options.num_microbatches);
        break;
    }
    schedule.push_back(with_transfers(options, stage, order));
  }
  return schedule;
}

int max_in_flight(const std::vector<Action>& actions, int chunk) {
  return max_in_flight_of(actions, chunk);
}

int max_in_flight_total(const std::vector<Action>& actions) {
  return max_in_flight_of(actions, -1);
}

}  // namespace plait
