#include "plan/plait_rules.h"

#include <algorithm>
#include <string_view>

namespace plait {
namespace {

// Bytes an element of the shard: the norm reads the gradients; AdamW reads weight, gradient and two
// moments and writes all but the gradient.
constexpr double kShardBytes = 4 + 28;

}  // namespace

double plait_redone(const TrainJob& job, const Operator& op, Recompute recompute) {
  const std::string_view name = op.name;
  switch (recompute) {
    case Recompute::kNone:
      return 0;
    case Recompute::kSelective:
      if (op.kind != OpKind::kMemory || name == "residual") {
        return 0;
      }
      return name == "rope" && !job.model.qk_norm ? 0 : 1;
    case Recompute::kFull:
      // A layer's two additions have one name.
      return op.keeps_activation ? 0 : name == "residual" ? 0.5 : 1;
  }
  return 0;
}

double plait_redone(const Collective& collective, Recompute recompute) {
  if (recompute != Recompute::kFull) {
    return 0;
  }
  // Gathers open the two halves of a layer, reductions close them.
  return collective.kind == CollectiveKind::kAllGather ? collective.forward
                                                       : collective.forward / 2;
}

StageTime plait_head(const StageTime& head) {
  StageTime moved;
  moved.forward = head.forward;
  moved.forward += head.backward;
  return moved;
}

double plait_optimizer_seconds(const TrainJob& job, const Cluster& cluster,
                               const StageParameters& parameters) {
  const Chip chip = chip_of_rank(cluster);
  double bandwidth = chip.stream_bandwidth.value;
  if (bandwidth <= 0) {
    bandwidth = chip.memory_bandwidth.value * chip.memory_efficiency.value;
  }
  if (cluster.host_bandwidth.value > 0) {
    bandwidth =
        std::min(bandwidth, cluster.host_bandwidth.value / std::max(1, cluster.devices_per_server));
  }
  const double shards = job.layout.zero >= 1 ? dense_shards(job) : 1;
  return parameters.total() * kShardBytes / shards / bandwidth;
}

Chip chip_of_rank(const Cluster& cluster) {
  Chip chip = cluster.chip;
  const double share = cluster.core_share();
  // What the optimizer's streams take from each other is in host_bandwidth.
  chip.stream_bandwidth.value *= share;
  for (Sourced* rate :
       {&chip.peak_16bit, &chip.peak_f32, &chip.memory_bandwidth, &chip.gemm_weight_bandwidth}) {
    rate->value *= share * cluster.speed_share();
  }
  chip.launch_s.value /= share;
  return chip;
}

}  // namespace plait
