#include "plan/check_memory.h"

#include <algorithm>

namespace plait {

MemoryVerdict judge_memory(const TrainJob& job, const Chip& chip) {
  MemoryVerdict verdict;
  verdict.chip = chip.name;
  verdict.capacity = chip.usable_bytes();
  verdict.stages = estimate_job_memory(job, chip);
  for (const StageMemoryPlan& stage : verdict.stages) {
    verdict.fit = std::max(verdict.fit, stage.fit);
  }
  return verdict;
}

const char* assumed_cluster(Stack stack) {
  const bool ascend = runs_on_ascend(stack);
  return ascend ? "910b" : "a100";
}

}  // namespace plait
