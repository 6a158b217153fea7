// The shape of a transformer, read from an HF config.json (style of transformers 4 and 5).
#pragma once

#include <cstdint>
#include <string>

#include "base/json.h"

namespace plait {

enum class ModelFamily : uint8_t { kQwen3, kQwen2, kLlama };

// "qwen3", "qwen2", "llama": HF's model_type.
const char* family_name(ModelFamily family);

enum class RopeType : uint8_t { kDefault, kLlama3 };

struct RopeConfig {
  RopeType type = RopeType::kDefault;
  double theta = 10000.0;
  // kLlama3 only (HF modeling_rope_utils, _compute_llama3_parameters).
  double factor = 1;
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
  RopeConfig rope;
  int64_t bos_token_id = -1;
  int64_t eos_token_id = -1;  // the first, if the file lists several

  // Query heads that share one kv head.
  int64_t group_size() const { return num_heads / num_kv_heads; }
};

// Reads DIR/config.json or a file. Errors: kNotFound; kCorruptData (not JSON, a key of the wrong
// type, a missing key, an impossible size: named with its value); kNotImplemented for an unknown
// architecture, rope type, activation, sliding-window use or quantisation, named: nothing unknown
// is ever treated as Llama.
ModelConfig load_model_config(const std::string& path);
ModelConfig parse_model_config(const Json& json, const std::string& origin);

// An HF config.json (style of transformers 5, with the old keys beside) that reads back equal and
// that HF transformers loads. `dtype` is "float32" or "bfloat16".
Json to_hf_config(const ModelConfig& config, const std::string& dtype);

// Checks that hold for every use (positive sizes, heads % kv_heads == 0, even head_dim, ...).
// Errors: kInvalidArgument naming key and value.
void check_model_config(const ModelConfig& config, const std::string& origin);

}  // namespace plait
