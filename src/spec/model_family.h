// What the reader, the checks and the writer of config.json share. Internal to spec/.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/error.h"
#include "spec/model_config.h"

namespace plait {

struct FamilyInfo {
  ModelFamily family;
  const char* model_type;
  const char* architecture;
  int64_t max_position_embeddings;  // HF's default when the key is absent
};
constexpr std::array<FamilyInfo, 3> kFamilies = {{
    {ModelFamily::kQwen3, "qwen3", "Qwen3ForCausalLM", 32768},
    {ModelFamily::kQwen2, "qwen2", "Qwen2ForCausalLM", 32768},
    {ModelFamily::kLlama, "llama", "LlamaForCausalLM", 2048},
}};

// Products of these (parameters of a model, bytes of its optimizer state) stay below 2^63.
struct SizeLimit {
  const char* key;  // HF's
  int64_t ModelConfig::*field;
  int64_t most;
};
constexpr std::array<SizeLimit, 8> kSizeLimits = {{
    {"vocab_size", &ModelConfig::vocab_size, int64_t{1} << 28},
    {"hidden_size", &ModelConfig::hidden_size, int64_t{1} << 20},
    {"intermediate_size", &ModelConfig::ffn_hidden_size, int64_t{1} << 22},
    {"num_hidden_layers", &ModelConfig::num_layers, int64_t{1} << 12},
    {"num_attention_heads", &ModelConfig::num_heads, int64_t{1} << 14},
    {"num_key_value_heads", &ModelConfig::num_kv_heads, int64_t{1} << 14},
    {"head_dim", &ModelConfig::head_dim, int64_t{1} << 12},
    {"max_position_embeddings", &ModelConfig::max_position_embeddings, int64_t{1} << 31},
}};

inline const FamilyInfo& family_info(ModelFamily family) {
  return kFamilies[static_cast<size_t>(family)];
}

// check_model_config with the code that errors carry: kCorruptData while reading a file.
void check_model_config_as(const ModelConfig& config, ErrorCode code, const std::string& origin);

}  // namespace plait
