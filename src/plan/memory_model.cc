#include "plan/memory_model.h"

#include <algorithm>
#include <cmath>

#include "base/round_up.h"
#include "plan/layer_work.h"
#include "plan/parameter_split.h"
#include "plan/stack_rules.h"
#include "spec/memory_estimate.h"

// For plait itself the trainer's own estimate (spec/memory_estimate) is used; for other stacks the
// closed forms of training.md section 3 over the operator list.
namespace plait {
namespace {

// Copies of the logits at the loss, beside the 16-bit ones: f32 logits and their exponentials
// (Megatron's vocab-parallel cross entropy); backward reuses them.
constexpr double kLogitCopies = 2;
// HF models, which DeepSpeed runs: the f32 copy, its log-softmax and its gradient.
constexpr double kHfLogitCopies = 3;
// Width of the interval: allocators keep holes between blocks of different sizes. Assumed from
// PyTorch's reserved-to-allocated ratios; the lower end covers activations that are freed early.
constexpr double kFragmentation = 0.06;
constexpr double kEarlyFree = 0.02;

// Chunk forwards whose backward has not run, at most (Narayanan et al. 2021, section 2.2 and the
// warm-up of the interleaved schedule). The same as max_in_flight_total of the schedule itself.
int in_flight(const TrainJob& job, int stage) {
  const Layout& l = job.layout;
  const int64_t m = job.batch.num_microbatches(l);
  int64_t flying = m;
  if (l.schedule == ScheduleKind::kOneFOneB) {
    flying = std::min<int64_t>(m, l.pp - stage);
  } else if (l.schedule == ScheduleKind::kZeroBubbleH1) {
    flying = std::min<int64_t>(m, l.pp);
  } else if (l.schedule == ScheduleKind::kInterleaved) {
    const int64_t warm_up = int64_t{2} * (l.pp - stage - 1) + int64_t{l.vpp - 1} * l.pp;
    flying = std::min(m * l.vpp, warm_up + 1);
  }
  return static_cast<int>(flying);
}

LayerBytes layer_bytes(const TrainJob& job, LayerType type) {
  const LayerWork work = layer_work(job, type);
  const Recompute mode = job.layout.recompute;
  LayerBytes bytes;
  bytes.kept = work.saved_bytes(mode == Recompute::kFull ? Recompute::kNone : mode);
  bytes.redone = work.saved_bytes(mode);
  bytes.activation = work.activation_bytes();
  double largest = 0;
  double core = 0;
  for (const Operator& op : work.operators) {
    largest = std::max(largest, op.saved);
    core += op.core_attention ? op.saved : 0;
  }
  // Gradients of the widest intermediate and its input; what recomputation brings back.
  bytes.working = 2 * largest + work.input_bytes;
  if (mode == Recompute::kFull) {
    bytes.working += work.saved_bytes(Recompute::kNone);
  } else if (mode == Recompute::kSelective) {
    bytes.working += core;
  }
  return bytes;
}

double adapters_per_layer(const TrainJob& job) {
  const ModelConfig& m = job.model;
  const LoraConfig& lora = job.lora;
  const auto q = static_cast<double>(m.num_heads * m.head_dim);
  const auto kv = static_cast<double>(m.num_kv_heads * m.head_dim);
  const auto h = static_cast<double>(m.hidden_size);
  const auto f = static_cast<double>(m.ffn_hidden_size);
  double sum = 0;
  sum += lora.qkv ? h + q + 2 * kv : 0;
  sum += lora.o ? q + h : 0;
  sum += lora.mlp ? (m.gated_mlp ? 3 : 2) * (h + f) : 0;
  return static_cast<double>(lora.rank) * sum / job.layout.tp;
}

void add_states(const TrainJob& job, const StageParameters& p, double layers, StageBytes& bytes) {
  const StateBytes rule = state_bytes(job);
  const double d = dense_shards(job);
  const double e = expert_shards(job);
  auto spread = [&](const SplitBytes& split, double dense, double expert) {
    return dense * (split.whole + split.sharded / d) + expert * (split.whole + split.sharded / e);
  };
  if (job.lora.rank > 0) {
    const double adapters = adapters_per_layer(job) * layers;
    bytes.weights = spread(rule.weights, p.dense + adapters, p.expert);
    bytes.gradients = spread(rule.gradients, adapters, 0);
    bytes.optimizer = spread(rule.optimizer, adapters, 0);
    return;
  }
  bytes.weights = spread(rule.weights, p.dense, p.expert);
  bytes.gradients = spread(rule.gradients, p.dense, p.expert);
  bytes.optimizer = job.offload_optimizer ? 0 : spread(rule.optimizer, p.dense, p.expert);
}

double logits_bytes(const TrainJob& job) {
  const double vocab =
      static_cast<double>(round_up(job.model.vocab_size, job.vocab_multiple * job.layout.tp)) /
      job.layout.tp;
  const double tokens =
      static_cast<double>(job.batch.micro_batch_size * job.batch.seq_len) / job.layout.cp;
  const double copies = job.stack == Stack::kDeepSpeed ? kHfLogitCopies : kLogitCopies;
  return tokens * vocab * (static_cast<double>(dtype_size(job.dtype)) + 4 * copies);
}

// Layers and kept bytes of one pipeline stage.
struct StageActivations {
  double layers = 0;
  double per_chunk = 0;  // kept by one micro-batch in an average chunk
  double working = 0;
};

StageActivations stage_activations(const TrainJob& job, const MemoryCosts& costs,
                                   const std::vector<StageLayers>& all, int stage) {
  const Layout& l = job.layout;
  StageActivations sum;
  double kept = 0;
  for (size_t v = static_cast<size_t>(stage); v < all.size(); v += static_cast<size_t>(l.pp)) {
    const int64_t counts[2] = {all[v].dense, all[v].moe};
    const double total = static_cast<double>(counts[0] + counts[1]);
    const double redone_share = total > 0 ? recomputed_layers(job, v, total) / total : 0;
    const double activations =
        job.recompute_activation_layers < 0
            ? total
            : std::min(total, static_cast<double>(job.recompute_activation_layers));
    for (const size_t type : {size_t{0}, size_t{1}}) {
      if (counts[type] == 0) {
        continue;
      }
      const auto count = static_cast<double>(counts[type]);
      kept += count * (costs.layer[type].redone * redone_share +
                       costs.layer[type].kept * (1 - redone_share));
      kept -= count / total * std::max(0.0, activations - redone_share * total) *
              costs.layer[type].activation;
      sum.working = std::max(sum.working, costs.layer[type].working);
      sum.layers += count;
    }
  }
  sum.per_chunk = kept / l.vpp;
  return sum;
}

// A communicator for every axis that has ranks, and one for the world.
double comm_bytes(const TrainJob& job) {
  const Layout& l = job.layout;
  const int groups = (l.tp > 1 ? 1 : 0) + (l.cp > 1 ? 1 : 0) + (l.dp * l.cp > 1 ? 1 : 0) +
                     (l.pp > 1 ? 1 : 0) + (l.ep > 1 ? 1 : 0) + (l.world_size() > 1 ? 1 : 0);
  return groups * communicator_bytes(job);
}

Fit fit_of(const Range& peak, double capacity) {
  return peak.high <= capacity ? Fit::kFits : peak.low > capacity ? Fit::kDoesNotFit : Fit::kTight;
}

void finish(double capacity, StageMemoryPlan& plan) {
  const StageBytes& b = plan.bytes;
  const double moving = b.activations + b.logits + b.transient;
  plan.peak.best = b.framework() + b.comm;
  plan.peak.low = b.states() + (1 - kEarlyFree) * moving;
  plan.peak.high = b.states() * 1.01 + (1 + kFragmentation) * moving + b.comm;
  plan.peak.best = std::max(plan.peak.best, plan.peak.low);
  plan.fit = fit_of(plan.peak, capacity);
}

std::vector<StageMemoryPlan> plait_memory(const TrainJob& job, double capacity) {
  const MemoryEstimate estimate = estimate_memory({.model = job.model,
                                                   .layout = job.layout,
                                                   .batch = job.batch,
                                                   .compute_dtype = job.dtype,
                                                   .vocab_multiple = job.vocab_multiple});
  std::vector<StageMemoryPlan> plans;
  for (const StageMemory& stage : estimate.stages) {
    StageMemoryPlan plan;
    plan.stage = stage.stage;
    plan.parameters = static_cast<double>(stage.elements);
    plan.max_in_flight = stage.max_in_flight;
    plan.bytes.weights = static_cast<double>(stage.weights.bytes);
    plan.bytes.gradients = static_cast<double>(stage.gradients.bytes);
    plan.bytes.optimizer = static_cast<double>(stage.optimizer.bytes);
    plan.bytes.activations = static_cast<double>(stage.activations.bytes);
    plan.bytes.transient = static_cast<double>(stage.workspace.bytes);
    plan.bytes.comm = static_cast<double>(stage.comm.bytes);
    plan.peak.best = static_cast<double>(stage.total.bytes);
    plan.peak.low = plan.peak.best - static_cast<double>(stage.late_send_bytes);
    plan.peak.high = plan.peak.best;
    plan.first_step_peak = plan.peak.best;
    plan.fit = fit_of(plan.peak, capacity);
    plans.push_back(plan);
  }
  return plans;
}

}  // namespace

MemoryCosts memory_costs(const TrainJob& job) {
  MemoryCosts costs;
  const bool moe = job.model.moe.num_experts > 0;
  costs.layer[0] = layer_bytes(job, LayerType::kDense);
  if (moe) {
    costs.layer[1] = layer_bytes(job, LayerType::kMoe);
  }
  costs.head = head_work(job).saved_bytes(Recompute::kNone);
  costs.logits = logits_bytes(job);
  return costs;
}

StageMemoryPlan plan_stage_memory(const TrainJob& job, const MemoryCosts& costs,
                                  const StageSplit& split, int stage) {
  StageMemoryPlan plan;
  const StageParameters& p = split.parameters[static_cast<size_t>(stage)];
  plan.stage = stage;
  plan.parameters = p.total();
  plan.max_in_flight = in_flight(job, stage);
  const StageActivations activations = stage_activations(job, costs, split.layers, stage);
  StageBytes& b = plan.bytes;
  add_states(job, p, activations.layers, b);
  b.activations = activations.per_chunk * plan.max_in_flight;
  const bool last = stage == job.layout.pp - 1;
  if (last) {
    b.activations += costs.head;
    b.logits = costs.logits;
  }
  // The loss and a layer's backward do not run at the same time.
  b.transient = std::max(0.0, activations.working - b.logits);
  if (job.layout.zero >= 3) {
    b.transient += 2 * static_cast<double>(dtype_size(job.dtype)) *
                   (p.total() / std::max(1.0, activations.layers));
  }
  b.transient += static_cast<double>(job.bucket_bytes);
  b.comm = comm_bytes(job);
  // Moments appear at the end of the first step, with a temporary of the largest parameter.
  const double later = late_state_share(job) * b.optimizer;
  plan.first_step_peak =
      std::max(b.framework() - later, b.states() + p.largest * kOptimizerTemporaryBytes);
  if (job.stack == Stack::kMindSpeed && job.flash_attention) {
    // The causal mask is built once on the device, from 16-bit ones: 7 bytes a pair of positions
    // before anything else is there (read off two configurations of 65,536 tokens whose peak does
    // not depend on cp).
    const auto seq = static_cast<double>(job.batch.seq_len);
    plan.first_step_peak = std::max(plan.first_step_peak, 7 * seq * seq);
  }
  finish(split.capacity, plan);
  return plan;
}

std::vector<StageMemoryPlan> estimate_job_memory(const TrainJob& job, const Chip& chip) {
  const double capacity = chip.usable_bytes();
  if (job.stack == Stack::kPlait) {
    return plait_memory(job, capacity);
  }
  const MemoryCosts costs = memory_costs(job);
  StageSplit split = stage_split(job, section_counts(job));
  split.capacity = capacity;
  std::vector<StageMemoryPlan> plans;
  for (int stage = 0; stage < job.layout.pp; ++stage) {
    plans.push_back(plan_stage_memory(job, costs, split, stage));
  }
  return plans;
}

}  // namespace plait
