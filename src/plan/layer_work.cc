#include "plan/layer_work.h"

#include <algorithm>

#include "base/round_up.h"

namespace plait {
namespace {

// Softmax statistics of Ascend's fused attention: max and sum, eight f32 each per query and head
// (aclnnFlashAttentionScore: softmaxMax, softmaxSum [B, N, Sq, 8]).
constexpr double kAscendStatsBytes = 2 * 8 * 4;
constexpr double kFlashStatsBytes = 4;

// Sizes of one rank's part of a layer.
struct Sizes {
  explicit Sizes(const TrainJob& job)
      : model(job.model),
        e(static_cast<double>(dtype_size(job.dtype))),
        tp(job.layout.tp),
        cp(job.layout.cp),
        tokens(static_cast<double>(job.batch.micro_batch_size * job.batch.seq_len) / cp),
        norm_tokens(job.layout.sp ? tokens / tp : tokens),
        seq(static_cast<double>(job.batch.seq_len)),
        hidden(static_cast<double>(job.model.hidden_size)),
        heads(static_cast<double>(job.model.num_heads) / tp),
        // kv heads are replicated where tp exceeds them.
        kv_heads(std::max(1.0, static_cast<double>(job.model.num_kv_heads) / tp)),
        head_dim(static_cast<double>(job.model.head_dim)) {}
  const ModelConfig& model;
  double e;
  double tp, cp;
  double tokens;       // that attention and the MLP see
  double norm_tokens;  // that norms and residuals see
  double seq;
  double hidden, heads, kv_heads, head_dim;
};

Operator gemm(const char* name, double m, double n, double k, double e) {
  Operator op;
  op.name = name;
  op.kind = OpKind::kGemm;
  op.flops = op.gemm_flops = 2 * m * n * k;
  op.weight_bytes = e * k * n;
  op.bytes = e * (m * k + m * n) + op.weight_bytes;
  return op;
}

Operator elementwise(const char* name, double bytes, double saved, int launches = 1) {
  Operator op;
  op.name = name;
  op.bytes = bytes;
  op.saved = saved;
  op.backward = 1.5;
  op.launches = launches;
  return op;
}

// A norm keeps its input and hands its output to a product, which keeps that.
void add_norm(const Sizes& s, const char* name, LayerWork& work) {
  const double size = s.norm_tokens * s.hidden * s.e;
  work.operators.push_back(elementwise(name, 2 * size, size));
}

void add_residual(const Sizes& s, double dropout, LayerWork& work) {
  const double size = s.norm_tokens * s.hidden;
  const double mask = dropout > 0 ? size : 0;  // one byte an element
  work.operators.push_back(elementwise("residual", 3 * size * s.e + mask, mask, 2));
}

// Fused attention keeps q, k, v, its output and the softmax statistics.
void add_flash_attention(const TrainJob& job, const Sizes& s, double qk_dim, double v_dim,
                         LayerWork& work) {
  const bool ascend = runs_on_ascend(job.stack);
  Operator op;
  op.name = "attention";
  op.kind = OpKind::kAttention;
  op.flops = op.gemm_flops = s.tokens * s.seq * s.heads * (qk_dim + v_dim);  // causal half of 2x
  op.bytes = s.e * s.tokens * (s.heads * (qk_dim + v_dim) + s.kv_heads * (qk_dim + v_dim));
  if (!job.swap_attention) {
    op.saved = s.e * s.tokens * s.heads * v_dim +
               s.tokens * s.heads * (ascend ? kAscendStatsBytes : kFlashStatsBytes);
  }
  op.backward = 2.5;
  op.launches = 3;
  op.core_attention = true;
  work.operators.push_back(op);
  if (ascend && job.model.position == PositionType::kAlibi) {
    // The bias [heads, seq, seq] is an input of the fused operator and kept for backward.
    const double bias = s.e * s.tokens * s.seq * s.heads;
    Operator pse = elementwise("alibi bias", bias, bias);
    pse.core_attention = true;
    work.operators.push_back(pse);
  }
}

// Scores are stored. Korthikanti et al. 2022, table 2: softmax output 2 bytes, dropout mask 1,
// dropout output 2 per score.
void add_plain_attention(const TrainJob& job, const Sizes& s, LayerWork& work) {
  const double scores = s.tokens * s.seq * s.heads;
  Operator products = gemm("scores and context", s.tokens * s.heads, s.seq, 2 * s.head_dim, s.e);
  products.bytes = s.e * (2 * scores + 4 * s.tokens * s.heads * s.head_dim);
  products.weight_bytes = 0;
  products.gemm_flops = 2 * s.seq * s.seq * s.head_dim;
  products.launches = 5;  // with the transpositions around them
  products.core_attention = true;
  work.operators.push_back(products);
  const bool dropout = job.dropout > 0;
  Operator softmax = elementwise("softmax", scores * (2 * s.e + (dropout ? 2 * s.e + 1 : 0)),
                                 scores * (s.e + (dropout ? s.e + 1 : 0)), dropout ? 2 : 1);
  softmax.core_attention = true;
  work.operators.push_back(softmax);
}

void add_attention_core(const TrainJob& job, const Sizes& s, LayerWork& work) {
  if (job.flash_attention) {
    add_flash_attention(job, s, s.head_dim, s.head_dim, work);
  } else {
    add_plain_attention(job, s, work);
  }
}

// One product whose input is kept.
void add_linear(const char* name, double m, double n, double k, double e, double saved,
                LayerWork& work) {
  Operator op = gemm(name, m, n, k, e);
  op.saved = saved;
  work.operators.push_back(op);
}

void add_gqa(const TrainJob& job, const Sizes& s, LayerWork& work) {
  const double qkv = (s.heads + 2 * s.kv_heads) * s.head_dim;
  const double normed = s.norm_tokens * s.hidden * s.e;
  add_linear("qkv", s.tokens, qkv, s.hidden, s.e, normed, work);
  // Fused RoPE turns q and k in place and keeps nothing; q, k and v are kept for attention.
  work.operators.push_back(elementwise("rope", 2 * s.tokens * qkv * s.e, s.tokens * qkv * s.e, 2));
  if (s.model.qk_norm) {
    const double qk = s.tokens * (s.heads + s.kv_heads) * s.head_dim * s.e;
    work.operators.push_back(elementwise("qk_norm", 2 * qk, qk, 2));
  }
  add_attention_core(job, s, work);
  const double out = s.heads * s.head_dim;
  // Its input is the attention's output, which fused attention has kept already.
  add_linear("o", s.tokens, s.hidden, out, s.e, job.flash_attention ? 0 : s.tokens * out * s.e,
             work);
}

// DeepSeek-V2 (arXiv:2405.04434, section 2.1), without absorbing the up-projections.
void add_mla(const TrainJob& job, const Sizes& s, LayerWork& work) {
  const MlaConfig& mla = s.model.mla;
  const auto q_rank = static_cast<double>(mla.q_lora_rank);
  const auto kv_rank = static_cast<double>(mla.kv_lora_rank);
  const auto rope = static_cast<double>(mla.rope_head_dim);
  const auto nope = static_cast<double>(mla.nope_head_dim);
  const auto v = static_cast<double>(mla.v_head_dim);
  const double normed = s.norm_tokens * s.hidden * s.e;
  const double q_dim = s.heads * (nope + rope);
  if (q_rank > 0) {
    add_linear("q_a", s.tokens, q_rank, s.hidden, s.e, normed, work);
    work.operators.push_back(
        elementwise("q_a_norm", 2 * s.tokens * q_rank * s.e, s.tokens * q_rank * s.e));
    add_linear("q_b", s.tokens, q_dim, q_rank, s.e, s.tokens * q_rank * s.e, work);
  } else {
    add_linear("q", s.tokens, q_dim, s.hidden, s.e, normed, work);
  }
  add_linear("kv_a", s.tokens, kv_rank + rope, s.hidden, s.e, 0, work);
  work.operators.push_back(
      elementwise("kv_a_norm", 2 * s.tokens * kv_rank * s.e, s.tokens * kv_rank * s.e));
  add_linear("kv_b", s.tokens, s.heads * (nope + v), kv_rank, s.e, s.tokens * kv_rank * s.e, work);
  const double qkv = s.heads * (2 * (nope + rope) + v);
  work.operators.push_back(
      elementwise("rope and concat", 3 * s.tokens * qkv * s.e, s.tokens * qkv * s.e, 6));
  Sizes full = s;
  full.kv_heads = s.heads;
  add_flash_attention(job, full, nope + rope, v, work);
  add_linear("o", s.tokens, s.hidden, s.heads * v, s.e, 0, work);
}

void add_activation(const Sizes& s, double tokens, double ffn, LayerWork& work) {
  const double in = s.model.gated_mlp ? 2 * ffn : ffn;
  work.operators.push_back(elementwise(s.model.gated_mlp ? "swiglu" : "gelu",
                                       tokens * (in + ffn) * s.e, tokens * in * s.e));
}

void add_mlp(const Sizes& s, double ffn, LayerWork& work) {
  const double up = s.model.gated_mlp ? 2 * ffn : ffn;
  add_linear("mlp up", s.tokens, up, s.hidden, s.e, s.norm_tokens * s.hidden * s.e, work);
  add_activation(s, s.tokens, ffn, work);
  add_linear("mlp down", s.tokens, s.hidden, ffn, s.e, s.tokens * ffn * s.e, work);
  work.operators.back().keeps_activation = true;
}

// Routed experts see tokens / tp * top_k rows a rank, balanced; each expert's products are as small
// as its share.
void add_experts(const TrainJob& job, const Sizes& s, LayerWork& work) {
  const MoeConfig& moe = s.model.moe;
  const double etp = job.expert_tp();
  const double rows =
      s.tokens * static_cast<double>(moe.experts_per_token) * etp / s.tp;  // on one rank
  const double local =
      std::max(1.0, static_cast<double>(moe.num_experts) / std::max(1, job.layout.ep));
  const double ffn = static_cast<double>(moe.ffn_hidden_size) / etp;
  const double row_bytes = s.hidden * s.e;
  add_linear("router", s.norm_tokens, static_cast<double>(moe.num_experts), s.hidden, s.e, 0, work);
  work.operators.push_back(elementwise("permute", 4 * rows * row_bytes, rows * row_bytes, 6));
  Operator up = gemm("experts up", rows, s.model.gated_mlp ? 2 * ffn : ffn, s.hidden, s.e);
  up.bytes += (local - 1) * up.weight_bytes;
  up.weight_bytes *= local;
  up.gemm_flops = up.flops / local;
  up.saved = rows * row_bytes;
  work.operators.push_back(up);
  add_activation(s, rows, ffn, work);
  Operator down = gemm("experts down", rows, s.hidden, ffn, s.e);
  down.bytes += (local - 1) * down.weight_bytes;
  down.weight_bytes *= local;
  down.gemm_flops = down.flops / local;
  down.saved = rows * ffn * s.e;
  down.keeps_activation = true;
  work.operators.push_back(down);
  if (job.layout.ep > 1) {
    const double bytes = s.tokens / s.tp * static_cast<double>(moe.experts_per_token) * row_bytes;
    work.collectives.push_back({.name = "dispatch and combine",
                                .axis = CommAxis::kEp,
                                .kind = CollectiveKind::kAllToAll,
                                .bytes = bytes,
                                .forward = 2,
                                .backward = 2});
  }
}

// Megatron-LM (Shoeybi et al. 2019; Korthikanti et al. 2022): per layer two reductions in forward
// and two in backward; with sequence parallelism gathers and scatters of the same volume, and the
// inputs of the column-parallel products gathered once more for their weight gradients.
void add_tp_collectives(const TrainJob& job, const Sizes& s, LayerWork& work) {
  if (job.layout.tp == 1) {
    return;
  }
  const double bytes = s.tokens * s.hidden * s.e;
  if (!job.layout.sp) {
    work.collectives.push_back(
        {"tp all_reduce", CommAxis::kTp, CollectiveKind::kAllReduce, bytes, 2, 2});
    return;
  }
  work.collectives.push_back(
      {"tp all_gather", CommAxis::kTp, CollectiveKind::kAllGather, bytes, 2, 4});
  work.collectives.push_back(
      {"tp reduce_scatter", CommAxis::kTp, CollectiveKind::kReduceScatter, bytes, 2, 2});
}

// Ring: every rank passes its keys and values to all others; backward passes their gradients too.
// Ulysses: all_to_all of q, k, v and the output.
void add_cp_collectives(const TrainJob& job, const Sizes& s, LayerWork& work) {
  if (job.layout.cp == 1) {
    return;
  }
  const double kv = 2 * s.tokens * s.kv_heads * s.head_dim * s.e;
  if (job.cp_algorithm == CpAlgorithm::kRing) {
    work.collectives.push_back(
        {"cp ring", CommAxis::kCp, CollectiveKind::kSendRecv, kv * (s.cp - 1), 1, 2});
    return;
  }
  const double q = s.tokens * s.heads * s.head_dim * s.e;
  work.collectives.push_back(
      {"cp all_to_all", CommAxis::kCp, CollectiveKind::kAllToAll, 2 * q + kv, 1, 1});
}

}  // namespace

double LayerWork::saved_bytes(Recompute recompute) const {
  if (recompute == Recompute::kFull) {
    return input_bytes;
  }
  double bytes = 0;
  for (const Operator& op : operators) {
    const bool redone = recompute == Recompute::kSelective && op.stores_scores();
    bytes += redone ? 0 : op.saved;
  }
  return bytes;
}

double LayerWork::activation_bytes() const {
  double bytes = 0;
  for (const Operator& op : operators) {
    bytes += op.keeps_activation ? op.saved : 0;
  }
  return bytes;
}

LayerWork layer_work(const TrainJob& job, LayerType type) {
  const Sizes s(job);
  LayerWork work;
  work.input_bytes = s.norm_tokens * s.hidden * s.e;
  add_norm(s, "input norm", work);
  if (s.model.mla.kv_lora_rank > 0) {
    add_mla(job, s, work);
  } else {
    add_gqa(job, s, work);
  }
  add_residual(s, job.dropout, work);
  add_norm(s, "post-attention norm", work);
  if (type == LayerType::kDense) {
    add_mlp(s, static_cast<double>(s.model.ffn_hidden_size) / s.tp, work);
  } else {
    add_experts(job, s, work);
    if (s.model.moe.shared_ffn_hidden_size > 0) {
      add_mlp(s, static_cast<double>(s.model.moe.shared_ffn_hidden_size) / s.tp, work);
    }
  }
  add_residual(s, job.dropout, work);
  add_tp_collectives(job, s, work);
  add_cp_collectives(job, s, work);
  return work;
}

LayerWork head_work(const TrainJob& job) {
  const Sizes s(job);
  const auto vocab =
      static_cast<double>(round_up(job.model.vocab_size, job.vocab_multiple * job.layout.tp)) /
      s.tp;
  LayerWork work;
  work.input_bytes = s.norm_tokens * s.hidden * s.e;
  add_norm(s, "final norm", work);
  add_linear("logits", s.tokens, vocab, s.hidden, s.e, s.norm_tokens * s.hidden * s.e, work);
  // Cast to f32, maximum, exponentials and sum; backward writes the gradient.
  work.operators.push_back(elementwise("loss", s.tokens * vocab * (s.e + 4 * 4), 0, 6));
  if (job.stack == Stack::kPlait) {
    // Maximum, sum of exponentials, gradient in place of the logits: all of it counted here.
    work.operators.back().bytes = s.tokens * vocab * 4 * s.e;
    work.operators.back().backward = 0;
    work.operators.back().launches = 4;
  }
  if (job.layout.tp > 1) {
    const double bytes = s.tokens * s.hidden * s.e;
    work.collectives.push_back(
        {"head tp", CommAxis::kTp,
         job.layout.sp ? CollectiveKind::kAllGather : CollectiveKind::kAllReduce, bytes,
         job.layout.sp ? 1.0 : 0.0, 1});
  }
  return work;
}

double boundary_bytes(const TrainJob& job) {
  const Sizes s(job);
  // With sequence parallelism a rank holds its tokens only; Megatron scatters and gathers
  // otherwise, plait sends all.
  if (job.stack == Stack::kPlait && !job.layout.sp) {
    return s.tokens * s.hidden * s.e;
  }
  return s.tokens * s.hidden * s.e / s.tp;
}

}  // namespace plait
