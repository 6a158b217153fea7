// What the reader, the checks and the writer of config.json share. Internal to spec/.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/error.h"
#include "base/json_reader.h"
#include "spec/model_config.h"

namespace plait {

struct FamilyInfo {
  ModelFamily family;
  const char* model_type;
  const char* architecture;  // empty: no file names it
  // HF's defaults when a key is absent.
  int64_t max_position_embeddings;
  int64_t num_kv_heads;  // 0: one per query head
  bool tie_word_embeddings;
};
constexpr std::array<FamilyInfo, 14> kFamilies = {{
    {ModelFamily::kQwen3, "qwen3", "Qwen3ForCausalLM", 32768, 32, false},
    {ModelFamily::kQwen2, "qwen2", "Qwen2ForCausalLM", 32768, 32, false},
    {ModelFamily::kLlama, "llama", "LlamaForCausalLM", 2048, 0, false},
    {ModelFamily::kMistral, "mistral", "MistralForCausalLM", 131072, 8, false},
    {ModelFamily::kBaichuan, "baichuan", "BaichuanForCausalLM", 4096, 0, false},
    {ModelFamily::kMixtral, "mixtral", "MixtralForCausalLM", 131072, 8, false},
    {ModelFamily::kQwen2Moe, "qwen2_moe", "Qwen2MoeForCausalLM", 32768, 16, false},
    {ModelFamily::kQwen3Moe, "qwen3_moe", "Qwen3MoeForCausalLM", 32768, 4, false},
    {ModelFamily::kDeepSeekV2, "deepseek_v2", "DeepseekV2ForCausalLM", 2048, 0, false},
    {ModelFamily::kDeepSeekV3, "deepseek_v3", "DeepseekV3ForCausalLM", 4096, 0, false},
    {ModelFamily::kGpt2, "gpt2", "GPT2LMHeadModel", 1024, 0, true},
    {ModelFamily::kGptNeox, "gpt_neox", "GPTNeoXForCausalLM", 2048, 0, false},
    {ModelFamily::kBloom, "bloom", "BloomForCausalLM", 2048, 0, true},
    {ModelFamily::kCustom, "custom", "", 2048, 0, false},
}};

// The families that plait trains.
inline bool is_trained(ModelFamily family) {
  return family == ModelFamily::kQwen3 || family == ModelFamily::kQwen2 ||
         family == ModelFamily::kLlama;
}

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

constexpr int64_t kExpertsMax = 1 << 12;
constexpr int64_t kExpertRowsMax = int64_t{1} << 24;  // num_experts * ffn_hidden_size

inline const FamilyInfo& family_info(ModelFamily family) {
  return kFamilies[static_cast<size_t>(family)];
}

// The keys of families that plait plans but does not train (model_config_planned.cc). GPT-2,
// GPT-NeoX and BLOOM name and shape everything in ways of their own:
bool is_gpt(ModelFamily family);
// All of the config but its family. Errors: as parse_model_config.
void read_gpt(const JsonReader& reader, ModelConfig& config);
// The experts and the latent attention of the others; nothing for a family without them.
void read_moe(const JsonReader& reader, ModelConfig& config);
void read_mla(const JsonReader& reader, ModelConfig& config);
// A window over the whole of Mistral or Mixtral. Errors: kNotImplemented.
void refuse_plain_window(const JsonReader& reader, const ModelConfig& config);

// Null counts as absent, as in JsonReader.
inline bool flag_or(const JsonReader& reader, const char* key, bool absent) {
  return reader.find(key) == nullptr ? absent : reader.flag(key);
}

[[noreturn]] void refuse(const JsonReader& reader, const std::string& what);

// check_model_config with the code that errors carry: kCorruptData while reading a file.
void check_model_config_as(const ModelConfig& config, ErrorCode code, const std::string& origin);

}  // namespace plait
