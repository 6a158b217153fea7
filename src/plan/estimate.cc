#include "plan/estimate.h"

#include <algorithm>

#include "plan/layer_work.h"
#include "plan/time_model.h"
#include "spec/model_flops.h"

namespace plait {

const char* fit_name(Fit fit) {
  switch (fit) {
    case Fit::kFits:
      return "fits";
    case Fit::kTight:
      return "tight";
    case Fit::kDoesNotFit:
      return "does not fit";
  }
  return "?";
}

const StageMemoryPlan& Estimate::worst_stage() const {
  return *std::max_element(
      stages.begin(), stages.end(),
      [](const StageMemoryPlan& a, const StageMemoryPlan& b) { return a.peak.best < b.peak.best; });
}

Estimate estimate_job(const TrainJob& job, const Cluster& cluster) {
  Estimate estimate;
  estimate.capacity = cluster.chip.usable_bytes();
  estimate.stages = estimate_job_memory(job, cluster.chip);
  for (const StageMemoryPlan& stage : estimate.stages) {
    estimate.fit = std::max(estimate.fit, stage.fit);
  }
  const StageSplit split = stage_split(job, section_counts(job));
  const TimeParts parts = time_parts(job, cluster, time_costs(job, cluster), split);
  estimate.time = step_time(job, parts, cluster.uncertainty.value);
  estimate.traffic = axis_traffic(job, split);
  const auto tokens = static_cast<double>(job.batch.global_batch_size * job.batch.seq_len);
  const double world = job.layout.world_size();
  estimate.tokens_per_second_per_device = tokens / estimate.time.step.best / world;
  estimate.model_flops = tokens * model_flops_per_token(job.model, job.batch.seq_len);
  estimate.mfu =
      estimate.model_flops / estimate.time.step.best / world / cluster.chip.peak(job.dtype);
  return estimate;
}

}  // namespace plait
