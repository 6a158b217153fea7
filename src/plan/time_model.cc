#include "plan/time_model.h"

#include <algorithm>

#include "plan/comm_model.h"
#include "plan/parameter_split.h"
#include "plan/plait_rules.h"

namespace plait {
namespace {

// Traffic of an optimizer step per element of the rank's shard: the norm reads the gradient (4),
// clipping reads and writes it (8), AdamW reads gradient, master and two moments and writes the
// latter three (28), and the 16-bit weight is copied back (6). fp16 also copies the gradient to f32
// (6) and unscales it (8). Counted from Megatron's optimizer (megatron/core/optimizer).
constexpr double kStepBytes = 4 + 8 + 28 + 6;
constexpr double kFp16Bytes = 6 + 8;
// A fused optimizer streams: it reaches more of the bandwidth than the many small kernels of a
// layer. Assumed.
constexpr double kStreamEfficiency = 0.8;
// Share of a collective that fused products (MC2, CoC, userbuffers) leave exposed: the first of
// four chunks. Assumed: no measurement names it.
constexpr double kFusedExposed = 0.4;
// Share of the last micro-batch's backward that gradient reductions can hide behind.
constexpr double kOverlap = 0.9;

double operator_seconds(const Chip& chip, const Operator& op, double peak) {
  const double traffic = op.bytes / (chip.memory_bandwidth.value * chip.memory_efficiency.value);
  if (op.kind == OpKind::kMemory) {
    return traffic;
  }
  if (op.kind == OpKind::kAttention) {
    return std::max(op.flops / (peak * chip.attention_efficiency.value), traffic);
  }
  const double efficiency =
      chip.gemm_efficiency.value * op.gemm_flops / (op.gemm_flops + chip.gemm_half_flops.value);
  const double weight =
      chip.gemm_weight_bandwidth.value > 0 ? op.weight_bytes / chip.gemm_weight_bandwidth.value : 0;
  return std::max(op.flops / (peak * efficiency) + weight, traffic);
}

class StageTimer {
 public:
  StageTimer(const TrainJob& job, const Cluster& cluster)
      : job_(job), cluster_(cluster), chip_(chip_of_rank(cluster)), peak_(chip_.peak(job.dtype)) {}

  StageTime time(const LayerWork& work, Recompute recompute) const {
    StageTime t;
    double launches = 0, backward_launches = 0;
    for (const Operator& op : work.operators) {
      const double seconds = operator_seconds(chip_, op, peak_);
      const double again = redone(op, recompute);
      t.forward.compute += seconds;
      t.backward.compute += seconds * op.backward;
      t.backward.recompute += again * seconds;
      t.backward.weight_gradient += op.kind == OpKind::kGemm && !op.core_attention ? seconds : 0;
      launches += op.launches;
      backward_launches += op.launches * (2 + again);
    }
    for (const Collective& collective : work.collectives) {
      const double seconds = exposed_seconds(collective);
      add_comm(t.forward, collective.axis, seconds * collective.forward);
      const double again = redone(collective, recompute);
      add_comm(t.backward, collective.axis, seconds * (collective.backward + again));
      launches += collective.forward;
      backward_launches += collective.backward + again;
    }
    wait_for_host(t.forward, launches);
    wait_for_host(t.backward, backward_launches);
    return t;
  }

 private:
  double redone(const Operator& op, Recompute recompute) const {
    if (job_.stack == Stack::kPlait) {
      return plait_redone(job_, op, recompute);
    }
    return recompute == Recompute::kFull ||
                   (recompute == Recompute::kSelective && op.stores_scores())
               ? 1
               : 0;
  }

  double redone(const Collective& collective, Recompute recompute) const {
    if (job_.stack == Stack::kPlait) {
      return plait_redone(collective, recompute);
    }
    return recompute == Recompute::kFull ? collective.forward : 0;
  }

  double exposed_seconds(const Collective& c) const {
    const double seconds = collective_seconds(cluster_, group_place(job_, c.axis), c.kind, c.bytes);
    if (c.axis == CommAxis::kTp && job_.overlap_tp_comm) {
      return seconds * kFusedExposed;
    }
    if (c.kind == CollectiveKind::kSendRecv) {
      // Ring attention computes one block while the next one travels.
      return seconds * kFusedExposed;
    }
    return seconds;
  }

  static void add_comm(PhaseTime& phase, CommAxis axis, double seconds) {
    switch (axis) {
      case CommAxis::kTp:
        phase.tp += seconds;
        break;
      case CommAxis::kCp:
        phase.cp += seconds;
        break;
      case CommAxis::kEp:
        phase.ep += seconds;
        break;
      default:
        break;
    }
  }

  void wait_for_host(PhaseTime& phase, double launches) const {
    const double seconds = launches * chip_.launch_s.value;
    // plait's kernels run where they are called: nothing hides a call.
    phase.host = job_.stack == Stack::kPlait ? seconds : std::max(0.0, seconds - phase.total());
  }

  const TrainJob& job_;
  const Cluster& cluster_;
  Chip chip_;
  double peak_;
};

// Layers of one kind in a virtual stage, some of them recomputed.
void add_layers(StageTime& stage, const StageTime& kept, const StageTime& redone, double count,
                double redone_count) {
  stage.forward += kept.forward * count;
  stage.backward += kept.backward * (count - redone_count);
  stage.backward += redone.backward * redone_count;
}

void add_stage_costs(const TrainJob& job, const TimeCosts& costs, const StageSplit& split,
                     TimeParts& parts) {
  for (size_t v = 0; v < split.layers.size(); ++v) {
    const StageLayers& l = split.layers[v];
    const auto total = static_cast<double>(l.dense + l.moe);
    const double share = total > 0 ? recomputed_layers(job, v, total) / total : 0;
    StageTime stage;
    add_layers(stage, costs.kept[0], costs.redone[0], static_cast<double>(l.dense),
               share * static_cast<double>(l.dense));
    add_layers(stage, costs.kept[1], costs.redone[1], static_cast<double>(l.moe),
               share * static_cast<double>(l.moe));
    parts.virtual_stages.push_back(stage);
  }
  parts.virtual_stages.back().forward += costs.head.forward;
  parts.virtual_stages.back().backward += costs.head.backward;
}

// Bytes of one gradient element on the wire.
double gradient_bytes(const TrainJob& job) {
  if (job.grad_bytes > 0) {
    return static_cast<double>(job.grad_bytes);
  }
  const bool sixteen = job.stack == Stack::kDeepSpeed || job.dtype == DType::kF16;
  return sixteen && job.dtype != DType::kF32 ? 2 : 4;
}

void add_data_parallel(const TrainJob& job, const Cluster& cluster, const StageSplit& split,
                       TimeParts& parts) {
  const GroupPlace place = group_place(job, CommAxis::kDp);
  const bool sharded = job.layout.zero >= 1;
  const auto weight_bytes = static_cast<double>(dtype_size(job.dtype));
  const double expert_size = expert_shards(job);
  const GroupPlace expert_place{
      static_cast<int>(expert_size),
      std::max(1, place.size * place.stride / static_cast<int>(expert_size))};
  const double bandwidth = cluster.chip.memory_bandwidth.value *
                           std::max(kStreamEfficiency, cluster.chip.memory_efficiency.value);
  const double step_bytes = kStepBytes + (job.dtype == DType::kF16 ? kFp16Bytes : 0);
  const CollectiveKind reduce =
      sharded ? CollectiveKind::kReduceScatter : CollectiveKind::kAllReduce;
  for (const StageParameters& p : split.parameters) {
    const double grads = gradient_bytes(job);
    parts.dp_reduce_s.push_back(
        collective_seconds(cluster, place, reduce, p.dense * grads) +
        collective_seconds(cluster, expert_place, reduce, p.expert * grads));
    double gather = 0;
    if (sharded) {
      gather =
          collective_seconds(cluster, place, CollectiveKind::kAllGather, p.dense * weight_bytes) +
          collective_seconds(cluster, expert_place, CollectiveKind::kAllGather,
                             p.expert * weight_bytes);
    }
    parts.dp_gather_s.push_back(gather);
    const double mine = sharded ? p.dense / dense_shards(job) + p.expert / expert_size : p.total();
    parts.optimizer_s.push_back(job.stack == Stack::kPlait
                                    ? plait_optimizer_seconds(job, cluster, p)
                                    : mine * step_bytes / bandwidth);
  }
}

}  // namespace

PhaseTime& PhaseTime::operator+=(const PhaseTime& other) {
  compute += other.compute;
  recompute += other.recompute;
  tp += other.tp;
  cp += other.cp;
  ep += other.ep;
  host += other.host;
  weight_gradient += other.weight_gradient;
  return *this;
}

PhaseTime PhaseTime::operator*(double factor) const {
  PhaseTime scaled = *this;
  for (double* part : {&scaled.compute, &scaled.recompute, &scaled.tp, &scaled.cp, &scaled.ep,
                       &scaled.host, &scaled.weight_gradient}) {
    *part *= factor;
  }
  return scaled;
}

TimeCosts time_costs(const TrainJob& job, const Cluster& cluster) {
  const StageTimer timer(job, cluster);
  const Recompute mode = job.layout.recompute;
  const Recompute kept = mode == Recompute::kFull ? Recompute::kNone : mode;
  TimeCosts costs;
  for (const LayerType type : {LayerType::kDense, LayerType::kMoe}) {
    if (type == LayerType::kDense || job.model.moe.num_experts > 0) {
      const LayerWork work = layer_work(job, type);
      costs.kept[static_cast<size_t>(type)] = timer.time(work, kept);
      costs.redone[static_cast<size_t>(type)] = timer.time(work, mode);
    }
  }
  costs.head = timer.time(head_work(job), Recompute::kNone);
  if (job.stack == Stack::kPlait) {
    costs.head = plait_head(costs.head);
  }
  return costs;
}

TimeParts time_parts(const TrainJob& job, const Cluster& cluster, const TimeCosts& costs,
                     const StageSplit& split) {
  TimeParts parts;
  parts.core_share = cluster.core_share();
  // Without a core of its own a reduction takes the time of the compute that it runs beside.
  parts.overlaps = cluster.cores == 0 || cluster.free_cores() > 0;
  add_stage_costs(job, costs, split, parts);
  if (job.layout.pp > 1) {
    parts.send_s = send_seconds(cluster, group_place(job, CommAxis::kPp), boundary_bytes(job));
  }
  add_data_parallel(job, cluster, split, parts);
  return parts;
}

ScheduleOptions schedule_options(const TrainJob& job) {
  return {.kind = job.layout.schedule,
          .pp = job.layout.pp,
          .vpp = job.layout.vpp,
          .num_microbatches = static_cast<int>(job.batch.num_microbatches(job.layout))};
}

PipelineCosts pipeline_costs(const TrainJob& job, const TimeParts& parts) {
  PipelineCosts costs;
  for (const StageTime& stage : parts.virtual_stages) {
    costs.virtual_stages.push_back(
        {stage.forward.total(), stage.backward.total(), stage.backward.weight_gradient});
  }
  costs.send_s = parts.send_s;
  costs.send_blocks = job.stack != Stack::kPlait;
  return costs;
}

double exposed_dp(const TrainJob& job, const TimeParts& parts, size_t stage) {
  const StageTime& work = parts.virtual_stages[stage];
  const double reduce = parts.dp_reduce_s[stage];
  const double gather = parts.dp_gather_s[stage];
  const double behind_backward = job.overlap_grad_reduce && parts.overlaps
                                     ? std::min(reduce, kOverlap * work.backward.total())
                                     : 0;
  const double behind_forward = job.overlap_param_gather && parts.overlaps
                                    ? std::min(gather, kOverlap * work.forward.total())
                                    : 0;
  return reduce - behind_backward + gather - behind_forward;
}

double step_lower_bound(const TrainJob& job, const TimeParts& parts) {
  // Every bound on the pipeline ends with a backward on the first stage, which then reduces.
  return pipeline_lower_bound(schedule_options(job), pipeline_costs(job, parts)) +
         exposed_dp(job, parts, 0) + parts.optimizer_s[0];
}

StepTime step_time(const TrainJob& job, const TimeParts& parts, double uncertainty) {
  const PipelineResult run = simulate_pipeline(schedule_options(job), pipeline_costs(job, parts));
  const auto m = static_cast<double>(schedule_options(job).num_microbatches);
  // The stage whose last work ends the step.
  size_t slowest = 0;
  double end = 0;
  double dp = 0;
  for (size_t stage = 0; stage < run.stage_end.size(); ++stage) {
    const double exposed = exposed_dp(job, parts, stage);
    const double finish = run.stage_end[stage] + exposed + parts.optimizer_s[stage];
    if (finish > end) {
      end = finish;
      slowest = stage;
      dp = exposed;
    }
  }
  StepTime t;
  PhaseTime busy;
  for (size_t v = slowest; v < parts.virtual_stages.size();
       v += static_cast<size_t>(job.layout.pp)) {
    busy += (parts.virtual_stages[v].forward) * m;
    busy += (parts.virtual_stages[v].backward) * m;
  }
  t.compute = busy.compute + busy.recompute;
  t.recompute = busy.recompute;
  t.turns = t.compute * (1 - parts.core_share);
  t.tp_exposed = busy.tp;
  t.cp_exposed = busy.cp;
  t.ep_exposed = busy.ep;
  t.host = busy.host;
  t.dp_exposed = dp;
  t.optimizer = parts.optimizer_s[slowest];
  if (job.layout.pp > 1 && job.stack != Stack::kPlait) {
    const double messages = 2 * m * job.layout.vpp;
    t.pp_exposed = std::min(run.stage_end[slowest] - busy.total(), messages * parts.send_s);
  }
  t.bubble = std::max(0.0, run.stage_end[slowest] - busy.total() - t.pp_exposed);
  t.step = {end * (1 - uncertainty), end, end * (1 + uncertainty)};
  return t;
}

AxisTraffic axis_traffic(const TrainJob& job, const StageSplit& split) {
  AxisTraffic traffic;
  const std::vector<StageLayers>& layers = split.layers;
  const auto m = static_cast<double>(job.batch.num_microbatches(job.layout));
  const bool redo = job.layout.recompute == Recompute::kFull;
  StageLayers mine;  // of the first stage
  for (size_t v = 0; v < layers.size(); v += static_cast<size_t>(job.layout.pp)) {
    mine.dense += layers[v].dense;
    mine.moe += layers[v].moe;
  }
  auto add = [&](LayerType type, int64_t count) {
    if (count == 0) {
      return;
    }
    for (const Collective& c : layer_work(job, type).collectives) {
      const double times = (c.forward * (redo ? 2 : 1) + c.backward) * m;
      const double bytes = static_cast<double>(count) * times *
                           bytes_sent(c.kind, group_place(job, c.axis).size, c.bytes);
      (c.axis == CommAxis::kTp   ? traffic.tp
       : c.axis == CommAxis::kCp ? traffic.cp
                                 : traffic.ep) += bytes;
    }
  };
  add(LayerType::kDense, mine.dense);
  add(LayerType::kMoe, mine.moe);
  const StageParameters p = split.parameters.front();
  const int dp = group_place(job, CommAxis::kDp).size;
  traffic.dp =
      bytes_sent(CollectiveKind::kReduceScatter, dp, p.dense * gradient_bytes(job)) +
      bytes_sent(CollectiveKind::kAllGather, dp,
                 p.dense * (job.layout.zero >= 1 ? static_cast<double>(dtype_size(job.dtype))
                                                 : gradient_bytes(job)));
  if (job.layout.pp > 1) {
    traffic.pp = m * job.layout.vpp * boundary_bytes(job);
  }
  return traffic;
}

}  // namespace plait
