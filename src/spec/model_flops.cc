#include "spec/model_flops.h"

namespace plait {
namespace {

double gqa_weights(const ModelConfig& m) {
  const auto h = static_cast<double>(m.hidden_size);
  const auto q = static_cast<double>(m.num_heads * m.head_dim);
  const auto kv = static_cast<double>(m.num_kv_heads * m.head_dim);
  return h * (q + 2 * kv) + q * h;
}

double mla_weights(const ModelConfig& m) {
  const MlaConfig& mla = m.mla;
  const auto h = static_cast<double>(m.hidden_size);
  const auto heads = static_cast<double>(m.num_heads);
  const auto q_rank = static_cast<double>(mla.q_lora_rank);
  const auto kv_rank = static_cast<double>(mla.kv_lora_rank);
  const double q_dim = heads * static_cast<double>(mla.nope_head_dim + mla.rope_head_dim);
  const auto v_dim = heads * static_cast<double>(mla.v_head_dim);
  const double q = q_rank > 0 ? h * q_rank + q_rank * q_dim : h * q_dim;
  const double kv = h * (kv_rank + static_cast<double>(mla.rope_head_dim)) +
                    kv_rank * (heads * static_cast<double>(mla.nope_head_dim) + v_dim);
  return q + kv + v_dim * h;
}

double mlp_weights(const ModelConfig& m, int64_t ffn) {
  return (m.gated_mlp ? 3 : 2) * static_cast<double>(m.hidden_size) * static_cast<double>(ffn);
}

// Sizes of q k and of v, over all heads: what a score and a weighted value cost.
double attended(const ModelConfig& m) {
  const auto heads = static_cast<double>(m.num_heads);
  const double size =
      m.mla.kv_lora_rank > 0
          ? static_cast<double>(m.mla.nope_head_dim + m.mla.rope_head_dim + m.mla.v_head_dim)
          : 2 * static_cast<double>(m.head_dim);
  return heads * size / 2;
}

}  // namespace

double model_flops_per_token(const ModelConfig& m, int64_t seq_len) {
  const double attention = m.mla.kv_lora_rank > 0 ? mla_weights(m) : gqa_weights(m);
  const auto h = static_cast<double>(m.hidden_size);
  double weights = h * static_cast<double>(m.vocab_size);
  for (int64_t l = 0; l < m.num_layers; ++l) {
    weights += attention;
    weights += m.is_moe_layer(l) ? mlp_weights(m, m.moe.experts_per_token * m.moe.ffn_hidden_size +
                                                      m.moe.shared_ffn_hidden_size) +
                                       h * static_cast<double>(m.moe.num_experts)
                                 : mlp_weights(m, m.ffn_hidden_size);
  }
  return 6 * weights +
         6 * static_cast<double>(m.num_layers) * static_cast<double>(seq_len) * attended(m);
}

}  // namespace plait
