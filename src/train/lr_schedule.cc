#include "train/lr_schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/error.h"

namespace plait {

const char* lr_decay_name(LrDecay decay) {
  static constexpr const char* kNames[] = {"constant", "linear", "cosine"};
  return kNames[static_cast<size_t>(decay)];
}

LrDecay parse_lr_decay(const std::string& name) {
  for (const LrDecay decay : {LrDecay::kConstant, LrDecay::kLinear, LrDecay::kCosine}) {
    if (name == lr_decay_name(decay)) {
      return decay;
    }
  }
  throw_error(ErrorCode::kInvalidArgument,
              "lr_decay '{}' is unknown; allowed are constant, linear and cosine", name);
}

double LrSchedule::at(int64_t step) const {
  if (step <= warmup_steps) {
    return lr * static_cast<double>(step) / static_cast<double>(warmup_steps);
  }
  if (decay == LrDecay::kConstant || decay_steps <= warmup_steps) {
    return lr;
  }
  const double progress = std::min(1.0, static_cast<double>(step - warmup_steps) /
                                            static_cast<double>(decay_steps - warmup_steps));
  const double left = decay == LrDecay::kLinear
                          ? 1.0 - progress
                          : 0.5 * (1.0 + std::cos(std::numbers::pi * progress));
  return lr_min + (lr - lr_min) * left;
}

}  // namespace plait
