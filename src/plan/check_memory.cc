#include "plan/check_memory.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/units.h"

namespace plait {
namespace {

// Communication buffers lie outside of the pool. The low end of the peak holds none.
Fit fit_in_pool(const StageMemoryPlan& stage, double pool) {
  return stage.peak.high - stage.bytes.comm <= pool ? Fit::kFits
         : stage.peak.low > pool                    ? Fit::kDoesNotFit
                                                    : Fit::kTight;
}

}  // namespace

MemoryVerdict judge_memory(const TrainJob& job, const Chip& chip) {
  MemoryVerdict verdict;
  verdict.chip = chip.name;
  verdict.capacity = chip.usable_bytes();
  verdict.pool = job.pool_bytes;
  verdict.stages = estimate_job_memory(job, chip);
  for (StageMemoryPlan& stage : verdict.stages) {
    if (verdict.pool > 0) {
      stage.fit = std::max(stage.fit, fit_in_pool(stage, verdict.pool));
    }
    verdict.fit = std::max(verdict.fit, stage.fit);
  }
  return verdict;
}

int64_t advised_pool_gib(const Chip& chip) {
  // MindSpore's documentation: 58 of 64 GB.
  constexpr double kShare = 58.0 / 64;
  const double bytes = std::min(kShare * chip.memory_bytes.value, chip.usable_bytes());
  return static_cast<int64_t>(bytes / kGiB);
}

std::optional<CheckProblem> find_pool_problem(const ReadJob& read, const MemoryVerdict& memory,
                                              const Chip& chip) {
  const auto setting = read.settings.find("pool");
  if (memory.pool <= 0 || memory.stages.empty() || setting == read.settings.end()) {
    return std::nullopt;
  }
  const StageMemoryPlan& stage =
      *std::max_element(memory.stages.begin(), memory.stages.end(),
                        [](const StageMemoryPlan& a, const StageMemoryPlan& b) {
                          return a.bytes.framework() < b.bytes.framework();
                        });
  const double needed = stage.bytes.framework();
  if (needed <= memory.pool) {
    return std::nullopt;
  }
  const int64_t advised = advised_pool_gib(chip);
  CheckProblem problem;
  problem.key = setting->second.name;
  problem.value = setting->second.value;
  problem.rule = fmt::format(
      "stage {} is predicted to need {:.2f} GiB ({:.2f} to {:.2f}) of the pool, which ends at "
      "{:.2f}",
      stage.stage, needed / kGiB, stage.peak.low / kGiB,
      (stage.peak.high - stage.bytes.comm) / kGiB, memory.pool / kGiB);
  problem.suggestion = needed <= static_cast<double>(advised) * kGiB
                           ? fmt::format("max_device_memory: \"{}GB\"", advised)
                           : std::string("a layout that needs less");
  problem.severity = stage.peak.low > memory.pool && !read.memory_is_upper_bound
                         ? Severity::kError
                         : Severity::kWarning;
  problem.source = "MindSpore documentation, max_device_memory";
  problem.where = setting->second.where;
  problem.of_job = true;
  return problem;
}

const char* assumed_cluster(Stack stack) {
  const bool ascend = runs_on_ascend(stack);
  return ascend ? "910b" : "a100";
}

}  // namespace plait
