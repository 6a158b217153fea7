// How far a layout can be pushed before it runs out of memory.
#pragma once

#include <cstdint>

#include "plan/estimate.h"

namespace plait {

struct Limits {
  int64_t longest_seq = 0;          // multiple of 2 * cp * tp; 0: not even the shortest fits
  int64_t largest_micro_batch = 0;  // at the job's own sequence length
};

// By the likely peak of the fullest stage; everything else of the job stays.
Limits memory_limits(const TrainJob& job, const Chip& chip);

}  // namespace plait
