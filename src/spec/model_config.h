// The shape of a transformer, read from an HF config.json (style of transformers 4 and 5).
#pragma once

#include <cstdint>
#include <string>

#include "base/json.h"

namespace plait {

// plait trains the first three and plans all: see check_trainable.
enum class ModelFamily : uint8_t {
  kQwen3,
  kQwen2,
  kLlama,
  kMistral,
  kBaichuan,  // the 7B has RoPE, the 13B ALiBi
  kMixtral,
  kQwen2Moe,
  kQwen3Moe,
  kDeepSeekV2,
  kDeepSeekV3,
  kGpt2,
  kGptNeox,
  kBloom,
  kCustom,  // a shape put together from a framework's arguments: no HF class, any parts
};

// HF's model_type: "qwen3", "deepseek_v3"; "custom" for kCustom.
const char* family_name(ModelFamily family);

enum class NormType : uint8_t {
  kRms,
  kLayer,  // with a bias
};
enum class PositionType : uint8_t {
  kRope,
  kLearned,  // a table of max_position_embeddings rows beside the token embedding
  kAlibi,
};

// Mixture of experts; num_experts == 0: every layer is dense.
struct MoeConfig {
  int64_t num_experts = 0;             // routed experts of a layer
  int64_t experts_per_token = 0;       // top-k
  int64_t ffn_hidden_size = 0;         // of one routed expert
  int64_t shared_ffn_hidden_size = 0;  // of all shared experts together; 0: none
  bool shared_gate = false;            // a [1, hidden] gate on the shared expert (Qwen2-MoE)
  bool router_bias = false;        // a bias per expert added to the router's scores (DeepSeek-V3)
  int64_t first_dense_layers = 0;  // layers in front that keep a dense MLP of ffn_hidden_size
  int64_t layer_period = 1;        // layer l is MoE if (l + 1) % layer_period == 0
};

// Multi-head latent attention (DeepSeek-V2, section 2.1); kv_lora_rank == 0: absent.
struct MlaConfig {
  int64_t q_lora_rank = 0;  // 0: one plain q projection
  int64_t kv_lora_rank = 0;
  int64_t rope_head_dim = 0;
  int64_t nope_head_dim = 0;
  int64_t v_head_dim = 0;
};

// What is behind kLlama3 is planned for, not executed: it changes no size.
enum class RopeType : uint8_t { kDefault, kLlama3, kLinear, kDynamic, kYarn, kLongRope };
const char* rope_type_name(RopeType type);  // HF's rope_type: "default", "llama3", "yarn"

struct RopeConfig {
  RopeType type = RopeType::kDefault;
  double theta = 10000.0;
  double factor = 1;  // of all types but kDefault
  // kLlama3 only (HF modeling_rope_utils, _compute_llama3_parameters).
  double low_freq_factor = 1;
  double high_freq_factor = 4;
  int64_t original_max_position_embeddings = 8192;
};

struct ModelConfig {
  ModelFamily family = ModelFamily::kLlama;
  int64_t vocab_size = 0;
  int64_t hidden_size = 0;
  int64_t ffn_hidden_size = 0;
  int64_t num_layers = 0;
  int64_t num_heads = 0;
  int64_t num_kv_heads = 0;
  int64_t head_dim = 0;
  int64_t max_position_embeddings = 0;
  double rms_norm_eps = 1e-6;
  double initializer_range = 0.02;
  bool tie_word_embeddings = false;
  bool qk_norm = false;   // Qwen3
  bool qkv_bias = false;  // Qwen2; Llama and Qwen3 with attention_bias
  bool o_bias = false;    // attention_bias of Llama and Qwen3; Qwen2 has none
  bool mlp_bias = false;  // Llama
  // What plait plans beyond what it trains: see check_trainable.
  NormType norm = NormType::kRms;
  PositionType position = PositionType::kRope;
  bool gated_mlp = true;        // SwiGLU; else two matrices and GELU
  bool embedding_norm = false;  // BLOOM
  MoeConfig moe;
  MlaConfig mla;
  RopeConfig rope;
  int64_t bos_token_id = -1;
  int64_t eos_token_id = -1;  // the first, if the file lists several

  // Query heads that share one kv head.
  int64_t group_size() const { return num_heads / num_kv_heads; }
  bool is_moe_layer(int64_t layer) const {
    return moe.num_experts > 0 && layer >= moe.first_dense_layers &&
           (layer + 1) % moe.layer_period == 0;
  }
};

// Reads DIR/config.json or a file, of a model that plait trains or plans: who executes it calls
// check_trainable. Errors: kNotFound; kCorruptData (not JSON, a key of the wrong type, a missing
// key, an impossible size: named with its value); kNotImplemented for an unknown architecture, rope
// type, activation, sliding-window use or quantisation, named: nothing unknown is ever treated as
// Llama.
ModelConfig load_model_config(const std::string& path);
ModelConfig parse_model_config(const Json& json, const std::string& origin);

// An HF config.json (style of transformers 5, with the old keys beside) that reads back equal and
// that HF transformers loads. `dtype` is "float32" or "bfloat16". Requires: check_trainable.
Json to_hf_config(const ModelConfig& config, const std::string& dtype);

// Checks that hold for every use (positive sizes, heads % kv_heads == 0, even head_dim, ...).
// Errors: kInvalidArgument naming key and value.
void check_model_config(const ModelConfig& config, const std::string& origin);

// Throws kNotImplemented, naming the part, for a model that plait plans but does not execute.
void check_trainable(const ModelConfig& config, const std::string& origin);

}  // namespace plait
