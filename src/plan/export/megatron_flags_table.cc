#include "plan/export/megatron_flags_table.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include <fmt/format.h>

namespace plait {
namespace {

// Absent: not written; empty: a bare flag.
using FlagValue = std::optional<std::string>;

FlagValue bare(bool on) {
  return on ? FlagValue("") : std::nullopt;
}
FlagValue number(int64_t value, bool on = true) {
  return on ? FlagValue(std::to_string(value)) : std::nullopt;
}
FlagValue real(double value, bool on = true) {
  return on ? FlagValue(fmt::format("{}", value)) : std::nullopt;
}
FlagValue word(const std::string& value, bool on = true) {
  return on ? FlagValue(shell_quoted(value)) : std::nullopt;
}

bool is_megatron(const TrainJob& job) {
  return job.stack == Stack::kMegatron;
}
bool is_uneven(const Layout& layout) {
  return !layout.stage_layers.empty();
}
// MindSpeed splits virtual stages unevenly by layers that hold nothing.
bool has_noop_layers(const TrainJob& job) {
  return !is_megatron(job) && is_uneven(job.layout) && job.layout.vpp > 1;
}
int64_t most_layers(const Layout& layout) {
  return *std::max_element(layout.stage_layers.begin(), layout.stage_layers.end());
}
int64_t listed_layers(const TrainJob& job) {
  return has_noop_layers(job) ? most_layers(job.layout) * job.layout.num_virtual_stages()
                              : job.model.num_layers;
}

std::string noop_places(const Layout& layout) {
  std::string places;
  int64_t begin = 0;
  const int64_t most = most_layers(layout);
  for (const int64_t count : layout.stage_layers) {
    for (int64_t place = begin + count; place < begin + most; ++place) {
      places += fmt::format("{}{}", places.empty() ? "" : ",", place);
    }
    begin += most;
  }
  return places;
}

std::string layer_list(const Layout& layout) {
  std::string list;
  for (const int64_t count : layout.stage_layers) {
    list += fmt::format("{}{}", list.empty() ? "" : ",", count);
  }
  return list;
}

// Python text: which layers are MoE.
std::string moe_pattern(const ModelConfig& model) {
  const MoeConfig& moe = model.moe;
  if (moe.layer_period > 1) {
    std::string pattern;
    for (int64_t layer = 0; layer < model.num_layers; ++layer) {
      pattern += fmt::format("{}{}", layer == 0 ? "" : ",", model.is_moe_layer(layer) ? 1 : 0);
    }
    return "[" + pattern + "]";
  }
  return fmt::format("([0]*{}+[1]*{})", moe.first_dense_layers,
                     model.num_layers - moe.first_dense_layers);
}

struct FlagRule {
  const char* name;
  FlagValue (*value)(const TrainJob&);
};

constexpr FlagRule kModelFlags[] = {
    {"--use-mcore-models", [](const TrainJob&) { return bare(true); }},
    {"--num-layers", [](const TrainJob& j) { return number(listed_layers(j)); }},
    {"--hidden-size", [](const TrainJob& j) { return number(j.model.hidden_size); }},
    {"--ffn-hidden-size", [](const TrainJob& j) { return number(j.model.ffn_hidden_size); }},
    {"--num-attention-heads", [](const TrainJob& j) { return number(j.model.num_heads); }},
    {"--group-query-attention",
     [](const TrainJob& j) { return bare(j.model.num_kv_heads != j.model.num_heads); }},
    {"--num-query-groups",
     [](const TrainJob& j) {
       return number(j.model.num_kv_heads, j.model.num_kv_heads != j.model.num_heads);
     }},
    {"--kv-channels",
     [](const TrainJob& j) { return number(j.model.head_dim, j.model.mla.kv_lora_rank == 0); }},
    {"--multi-latent-attention",
     [](const TrainJob& j) { return bare(j.model.mla.kv_lora_rank > 0); }},
    {"--q-lora-rank",
     [](const TrainJob& j) {
       return number(j.model.mla.q_lora_rank, j.model.mla.q_lora_rank > 0);
     }},
    {"--kv-lora-rank",
     [](const TrainJob& j) {
       return number(j.model.mla.kv_lora_rank, j.model.mla.kv_lora_rank > 0);
     }},
    {"--qk-head-dim",
     [](const TrainJob& j) {
       return number(j.model.mla.nope_head_dim, j.model.mla.kv_lora_rank > 0);
     }},
    {"--qk-pos-emb-head-dim",
     [](const TrainJob& j) {
       return number(j.model.mla.rope_head_dim, j.model.mla.kv_lora_rank > 0);
     }},
    {"--v-head-dim",
     [](const TrainJob& j) {
       return number(j.model.mla.v_head_dim, j.model.mla.kv_lora_rank > 0);
     }},
    {"--max-position-embeddings",
     [](const TrainJob& j) { return number(j.model.max_position_embeddings); }},
    {"--position-embedding-type",
     [](const TrainJob& j) {
       return word(j.model.position == PositionType::kRope      ? "rope"
                   : j.model.position == PositionType::kLearned ? "learned_absolute"
                                                                : "alibi");
     }},
    {"--rotary-base",
     [](const TrainJob& j) {
       return number(static_cast<int64_t>(j.model.rope.theta),
                     j.model.position == PositionType::kRope);
     }},
    {"--use-rope-scaling",
     [](const TrainJob& j) {
       return bare(is_megatron(j) && j.model.rope.type == RopeType::kLlama3);
     }},
    {"--rope-scaling-type",
     [](const TrainJob& j) {
       return word("llama3", !is_megatron(j) && j.model.rope.type == RopeType::kLlama3);
     }},
    {"--rope-scaling-factor",
     [](const TrainJob& j) {
       return real(j.model.rope.factor, j.model.rope.type == RopeType::kLlama3);
     }},
    {"--low-freq-factor",
     [](const TrainJob& j) {
       return real(j.model.rope.low_freq_factor,
                   !is_megatron(j) && j.model.rope.type == RopeType::kLlama3);
     }},
    {"--high-freq-factor",
     [](const TrainJob& j) {
       return real(j.model.rope.high_freq_factor,
                   !is_megatron(j) && j.model.rope.type == RopeType::kLlama3);
     }},
    {"--rope-scaling-original-max-position-embeddings",
     [](const TrainJob& j) {
       return number(j.model.rope.original_max_position_embeddings,
                     !is_megatron(j) && j.model.rope.type == RopeType::kLlama3);
     }},
    {"--normalization",
     [](const TrainJob& j) { return word("RMSNorm", j.model.norm == NormType::kRms); }},
    {"--norm-epsilon", [](const TrainJob& j) { return real(j.model.rms_norm_eps); }},
    {"--swiglu", [](const TrainJob& j) { return bare(j.model.gated_mlp); }},
    {"--disable-bias-linear",
     [](const TrainJob& j) { return bare(!j.model.o_bias && !j.model.mlp_bias); }},
    {"--add-qkv-bias", [](const TrainJob& j) { return bare(j.model.qkv_bias && !j.model.o_bias); }},
    {"--qk-layernorm", [](const TrainJob& j) { return bare(j.model.qk_norm); }},
    {"--embed-layernorm", [](const TrainJob& j) { return bare(j.model.embedding_norm); }},
    {"--untie-embeddings-and-output-weights",
     [](const TrainJob& j) { return bare(!j.model.tie_word_embeddings); }},
    {"--vocab-size", [](const TrainJob& j) { return number(j.model.vocab_size); }},
    {"--make-vocab-size-divisible-by", [](const TrainJob& j) { return number(j.vocab_multiple); }},
    {"--init-method-std", [](const TrainJob& j) { return real(j.model.initializer_range); }},
};

constexpr FlagRule kMoeFlags[] = {
    {"--num-experts", [](const TrainJob& j) { return number(j.model.moe.num_experts); }},
    {"--moe-router-topk", [](const TrainJob& j) { return number(j.model.moe.experts_per_token); }},
    {"--moe-ffn-hidden-size",
     [](const TrainJob& j) { return number(j.model.moe.ffn_hidden_size); }},
    {"--moe-shared-expert-intermediate-size",
     [](const TrainJob& j) {
       return number(j.model.moe.shared_ffn_hidden_size, j.model.moe.shared_ffn_hidden_size > 0);
     }},
    {"--moe-shared-expert-gate",
     [](const TrainJob& j) { return bare(is_megatron(j) && j.model.moe.shared_gate); }},
    {"--shared-expert-gate",
     [](const TrainJob& j) { return bare(!is_megatron(j) && j.model.moe.shared_gate); }},
    {"--moe-router-score-function",
     [](const TrainJob& j) { return word("sigmoid", j.model.moe.router_bias); }},
    {"--moe-router-enable-expert-bias",
     [](const TrainJob& j) { return bare(j.model.moe.router_bias); }},
    {"--moe-layer-freq",
     [](const TrainJob& j) {
       const MoeConfig& moe = j.model.moe;
       const bool every = moe.layer_period == 1 && (moe.first_dense_layers == 0 || !is_megatron(j));
       return word(every ? "1" : moe_pattern(j.model), !every || moe.first_dense_layers > 0);
     }},
    {"--first-k-dense-replace",
     [](const TrainJob& j) {
       return number(j.model.moe.first_dense_layers,
                     !is_megatron(j) && j.model.moe.first_dense_layers > 0);
     }},
    {"--moe-grouped-gemm", [](const TrainJob&) { return bare(true); }},
    {"--moe-token-dispatcher-type", [](const TrainJob&) { return word("alltoall"); }},
    {"--moe-aux-loss-coeff", [](const TrainJob&) { return real(0.001); }},
};

constexpr FlagRule kParallelFlags[] = {
    {"--tensor-model-parallel-size", [](const TrainJob& j) { return number(j.layout.tp); }},
    {"--pipeline-model-parallel-size", [](const TrainJob& j) { return number(j.layout.pp); }},
    {"--num-layers-per-virtual-pipeline-stage",
     [](const TrainJob& j) {
       const bool even = !is_uneven(j.layout) || has_noop_layers(j);
       return number(listed_layers(j) / j.layout.num_virtual_stages(), even && j.layout.vpp > 1);
     }},
    {"--pipeline-model-parallel-layout",
     [](const TrainJob& j) {
       const bool on = is_megatron(j) && is_uneven(j.layout);
       return word(on ? stage_layout_text(j.layout) : "", on);
     }},
    {"--num-layer-list",
     [](const TrainJob& j) {
       return word(layer_list(j.layout),
                   !is_megatron(j) && is_uneven(j.layout) && j.layout.vpp == 1);
     }},
    {"--noop-layers",
     [](const TrainJob& j) {
       const std::string places = has_noop_layers(j) ? noop_places(j.layout) : "";
       return word(places, !places.empty());
     }},
    {"--context-parallel-size", [](const TrainJob& j) { return number(j.layout.cp); }},
    {"--cp-comm-type",
     [](const TrainJob& j) {
       return word(j.cp_algorithm == CpAlgorithm::kRing ? "p2p" : "a2a",
                   is_megatron(j) && j.layout.cp > 1);
     }},
    {"--context-parallel-algo",
     [](const TrainJob& j) {
       return word(j.cp_algorithm == CpAlgorithm::kRing ? "megatron_cp_algo" : "ulysses_cp_algo",
                   !is_megatron(j) && j.layout.cp > 1);
     }},
    {"--expert-model-parallel-size",
     [](const TrainJob& j) { return number(j.layout.ep, j.model.moe.num_experts > 0); }},
    {"--expert-tensor-parallel-size", [](const TrainJob& j) { return number(j.etp, j.etp > 0); }},
    {"--sequence-parallel", [](const TrainJob& j) { return bare(j.layout.sp); }},
    {"--use-distributed-optimizer", [](const TrainJob& j) { return bare(j.layout.zero >= 1); }},
    {"--use-megatron-fsdp", [](const TrainJob& j) { return bare(j.layout.zero >= 2); }},
    {"--data-parallel-sharding-strategy",
     [](const TrainJob& j) {
       return word(j.layout.zero == 2 ? "optim_grads" : "optim_grads_params", j.layout.zero >= 2);
     }},
    {"--ckpt-format", [](const TrainJob& j) { return word("fsdp_dtensor", j.layout.zero >= 2); }},
    {"--overlap-grad-reduce", [](const TrainJob& j) { return bare(j.overlap_grad_reduce); }},
    {"--overlap-param-gather", [](const TrainJob& j) { return bare(j.overlap_param_gather); }},
    {"--tp-comm-overlap",
     [](const TrainJob& j) { return bare(is_megatron(j) && j.overlap_tp_comm); }},
    {"--use-ascend-mc2",
     [](const TrainJob& j) { return bare(!is_megatron(j) && j.overlap_tp_comm); }},
    {"--distributed-backend", [](const TrainJob&) { return word("nccl"); }},
};

constexpr FlagRule kMemoryFlags[] = {
    {"--bf16", [](const TrainJob& j) { return bare(j.dtype == DType::kBF16); }},
    {"--fp16", [](const TrainJob& j) { return bare(j.dtype == DType::kF16); }},
    {"--initial-loss-scale",
     [](const TrainJob& j) { return number(4096, j.dtype == DType::kF16); }},
    {"--attention-backend",
     [](const TrainJob& j) {
       return word(j.flash_attention ? "flash" : "unfused", is_megatron(j));
     }},
    {"--use-flash-attn",
     [](const TrainJob& j) { return bare(!is_megatron(j) && j.flash_attention); }},
    {"--attention-dropout", [](const TrainJob& j) { return real(j.dropout); }},
    {"--hidden-dropout", [](const TrainJob& j) { return real(j.dropout); }},
    {"--recompute-granularity",
     [](const TrainJob& j) {
       return word(recompute_name(j.layout.recompute), j.layout.recompute != Recompute::kNone);
     }},
    {"--recompute-method",
     [](const TrainJob& j) {
       return word(j.recompute_layers < 0 ? "uniform" : "block",
                   j.layout.recompute == Recompute::kFull);
     }},
    {"--recompute-num-layers",
     [](const TrainJob& j) {
       return number(j.recompute_layers < 0 ? 1 : j.recompute_layers,
                     j.layout.recompute == Recompute::kFull);
     }},
    {"--enable-recompute-layers-per-pp-rank",
     [](const TrainJob& j) { return bare(j.recompute_per_stage); }},
    {"--recompute-activation-function",
     [](const TrainJob& j) { return bare(j.recompute_activation_layers != 0); }},
    {"--recompute-activation-function-num-layers",
     [](const TrainJob& j) {
       return number(j.recompute_activation_layers, j.recompute_activation_layers > 0);
     }},
    {"--swap-attention", [](const TrainJob& j) { return bare(j.swap_attention); }},
    {"--reuse-fp32-param", [](const TrainJob& j) { return bare(j.reuse_fp32_param); }},
    {"--swap-optimizer",
     [](const TrainJob& j) { return bare(!is_megatron(j) && j.offload_optimizer); }},
    {"--optimizer-cpu-offload",
     [](const TrainJob& j) { return bare(is_megatron(j) && j.offload_optimizer); }},
    {"--use-precision-aware-optimizer",
     [](const TrainJob& j) { return bare(is_megatron(j) && j.offload_optimizer); }},
    {"--accumulate-allreduce-grads-in-fp32",
     [](const TrainJob& j) { return bare(j.grad_bytes == 4); }},
    {"--grad-reduce-in-bf16", [](const TrainJob& j) { return bare(j.grad_bytes == 2); }},
    {"--no-gradient-accumulation-fusion",
     [](const TrainJob& j) { return bare(!is_megatron(j) || j.layout.zero >= 2); }},
    {"--use-fused-rmsnorm",
     [](const TrainJob& j) { return bare(!is_megatron(j) && j.model.norm == NormType::kRms); }},
    {"--use-fused-swiglu",
     [](const TrainJob& j) { return bare(!is_megatron(j) && j.model.gated_mlp); }},
    {"--use-fused-rotary-pos-emb",
     [](const TrainJob& j) {
       return bare(!is_megatron(j) && j.model.position == PositionType::kRope);
     }},
    {"--no-masked-softmax-fusion", [](const TrainJob& j) { return bare(!is_megatron(j)); }},
    {"--attention-softmax-in-fp32", [](const TrainJob& j) { return bare(!is_megatron(j)); }},
};

constexpr FlagRule kBatchFlags[] = {
    {"--micro-batch-size", [](const TrainJob& j) { return number(j.batch.micro_batch_size); }},
    {"--global-batch-size", [](const TrainJob& j) { return number(j.batch.global_batch_size); }},
    {"--seq-length", [](const TrainJob& j) { return number(j.batch.seq_len); }},
};

template <size_t kCount>
void append(const TrainJob& job, const FlagRule (&rules)[kCount], std::vector<ScriptFlag>& flags) {
  for (const FlagRule& rule : rules) {
    if (const FlagValue value = rule.value(job)) {
      flags.push_back({rule.name, *value});
    }
  }
}

}  // namespace

std::string stage_layout_text(const Layout& layout) {
  std::string text = "E";
  for (size_t stage = 0; stage < layout.stage_layers.size(); ++stage) {
    const int64_t count = layout.stage_layers[stage];
    text += stage == 0 ? "" : "|";
    text += count > 3 ? fmt::format("t*{}", count) : std::string(static_cast<size_t>(count), 't');
  }
  return text + "L";
}

std::vector<ScriptFlag> megatron_job_flags(const TrainJob& job, FlagGroup group) {
  std::vector<ScriptFlag> flags;
  switch (group) {
    case FlagGroup::kModel:
      append(job, kModelFlags, flags);
      if (job.model.moe.num_experts > 0) {
        append(job, kMoeFlags, flags);
      }
      break;
    case FlagGroup::kParallel:
      append(job, kParallelFlags, flags);
      break;
    case FlagGroup::kMemory:
      append(job, kMemoryFlags, flags);
      break;
    case FlagGroup::kBatch:
      append(job, kBatchFlags, flags);
      break;
  }
  return flags;
}

}  // namespace plait
