#include "plan/limits.h"

#include <algorithm>
#include <functional>

namespace plait {
namespace {

constexpr int64_t kMost = int64_t{1} << 24;

bool fits(const TrainJob& job, const Chip& chip) {
  const double capacity = chip.usable_bytes();
  const std::vector<StageMemoryPlan> stages = estimate_job_memory(job, chip);
  return std::all_of(stages.begin(), stages.end(), [capacity](const StageMemoryPlan& stage) {
    return stage.peak.best <= capacity;
  });
}

// The largest n in [1, kMost] that works, if all below do; 0 if none.
int64_t largest(const std::function<bool(int64_t)>& works) {
  int64_t low = 0;
  int64_t high = 1;
  while (high <= kMost && works(high)) {
    low = high;
    high *= 2;
  }
  while (low + 1 < high) {
    const int64_t middle = low + (high - low) / 2;
    (works(middle) ? low : high) = middle;
  }
  return std::min(low, kMost);
}

}  // namespace

Limits memory_limits(const TrainJob& job, const Chip& chip) {
  const int64_t unit = int64_t{2} * job.layout.cp * job.layout.tp;
  Limits limits;
  limits.longest_seq = unit * largest([&](int64_t units) {
                         TrainJob longer = job;
                         longer.batch.seq_len = units * unit;
                         return fits(longer, chip);
                       });
  limits.largest_micro_batch = largest([&](int64_t rows) {
    TrainJob wider = job;
    wider.batch.micro_batch_size = rows;
    // As many micro-batches as before, so that as many are in flight.
    wider.batch.global_batch_size = job.batch.num_microbatches(job.layout) * rows * job.layout.dp;
    return fits(wider, chip);
  });
  return limits;
}

}  // namespace plait
