// Learning rate by step: linear warm-up, then constant, linear or cosine decay to a floor.
#pragma once

#include <cstdint>
#include <string>

namespace plait {

enum class LrDecay : uint8_t { kConstant, kLinear, kCosine };

const char* lr_decay_name(LrDecay decay);  // "constant", "linear", "cosine"
// Errors: kInvalidArgument naming the value and the names that exist.
LrDecay parse_lr_decay(const std::string& name);

struct LrSchedule {
  double lr = 1e-3;   // after warm-up
  double lr_min = 0;  // at the end of the decay and after it
  int64_t warmup_steps = 0;
  int64_t decay_steps = 0;  // step at which lr_min is reached
  LrDecay decay = LrDecay::kConstant;

  // Steps count from 1. During warm-up lr * step / warmup_steps; the cosine is
  // lr_min + (lr - lr_min) (1 + cos(pi x)) / 2 (Loshchilov & Hutter 2017, one cycle).
  double at(int64_t step) const;
};

}  // namespace plait
