// Keys of config.json that only families have which plait plans but does not train.
#include <algorithm>
#include <initializer_list>
#include <optional>

#include "base/error.h"
#include "base/json_full.h"
#include "spec/model_family.h"

namespace plait {
namespace {

// HF's sliding_window of MistralConfig when the key is absent.
constexpr int64_t kMistralWindowDefault = 4096;

// The first of several spellings that is there.
std::optional<int64_t> first_integer(const JsonReader& reader,
                                     std::initializer_list<const char*> keys) {
  for (const char* key : keys) {
    if (const std::optional<int64_t> value = reader.integer(key)) {
      return value;
    }
  }
  return std::nullopt;
}

int64_t required_of(const JsonReader& reader, std::initializer_list<const char*> keys) {
  const std::optional<int64_t> value = first_integer(reader, keys);
  if (!value) {
    reader.missing(*keys.begin());
  }
  return *value;
}

// Kept from overflowing before check_model_config names the size.
int64_t four_times(int64_t hidden) {
  return 4 * std::clamp<int64_t>(hidden, 0, int64_t{1} << 32);
}

void read_activation(const JsonReader& reader, const char* key) {
  const std::string name = reader.text(key).value_or("gelu");
  if (!name.starts_with("gelu") && name != "relu") {
    refuse(reader, std::string(key) + " " + shown_json(Json(name)) +
                       " is not implemented; only gelu, its variants and relu are");
  }
}

// Layers that keep a dense MLP in mlp_only_layers of the Qwen families: a run in front, or none.
int64_t read_dense_layers(const JsonReader& reader) {
  const Json* layers = reader.find("mlp_only_layers");
  if (layers == nullptr) {
    return 0;
  }
  if (!layers->is_array()) {
    reader.wrong_type("mlp_only_layers", *layers, "a list of layer numbers");
  }
  int64_t next = 0;
  for (const Json& layer : *layers) {
    if (reader.to_integer("mlp_only_layers", layer) != next) {
      refuse(reader, "mlp_only_layers " + shown_json(*layers) +
                         " is not implemented; only layers in front (0, 1, ...) are");
    }
    ++next;
  }
  return next;
}

void read_qwen_moe(const JsonReader& reader, ModelConfig& config) {
  MoeConfig& moe = config.moe;
  moe.num_experts = reader.required_integer("num_experts");
  moe.experts_per_token = reader.required_integer("num_experts_per_tok");
  moe.ffn_hidden_size = reader.required_integer("moe_intermediate_size");
  moe.layer_period = reader.integer("decoder_sparse_step").value_or(1);
  moe.first_dense_layers = read_dense_layers(reader);
  if (config.family == ModelFamily::kQwen2Moe) {
    moe.shared_ffn_hidden_size = reader.required_integer("shared_expert_intermediate_size");
    moe.shared_gate = moe.shared_ffn_hidden_size > 0;
  }
}

void read_deepseek_moe(const JsonReader& reader, ModelConfig& config) {
  const std::optional<int64_t> experts = reader.integer("n_routed_experts");
  if (!experts) {
    return;  // null: a dense model
  }
  MoeConfig& moe = config.moe;
  moe.num_experts = *experts;
  moe.experts_per_token = reader.required_integer("num_experts_per_tok");
  moe.ffn_hidden_size = reader.required_integer("moe_intermediate_size");
  moe.first_dense_layers = reader.integer("first_k_dense_replace").value_or(0);
  const int64_t shared = reader.integer("n_shared_experts").value_or(0);
  static constexpr int64_t kSharedMax = 1 << 10;
  if (shared < 0 || shared > kSharedMax) {
    throw_error(ErrorCode::kCorruptData, "{}: n_shared_experts is {}, but must be 0 to {}",
                reader.origin(), shared, kSharedMax);
  }
  moe.shared_ffn_hidden_size =
      shared * std::clamp<int64_t>(moe.ffn_hidden_size, 0, int64_t{1} << 32);
  const int64_t period = reader.integer("moe_layer_freq").value_or(1);
  if (period != 1) {
    refuse(reader, fmt::format("moe_layer_freq {} is not implemented; only 1 is", period));
  }
  moe.router_bias = config.family == ModelFamily::kDeepSeekV3;
}

}  // namespace

bool is_gpt(ModelFamily family) {
  return family == ModelFamily::kGpt2 || family == ModelFamily::kGptNeox ||
         family == ModelFamily::kBloom;
}

void read_gpt(const JsonReader& reader, ModelConfig& config) {
  const FamilyInfo& info = family_info(config.family);
  const bool neox = config.family == ModelFamily::kGptNeox;
  config.vocab_size = reader.required_integer("vocab_size");
  config.hidden_size = required_of(reader, {"hidden_size", "n_embd", "n_embed"});
  config.num_layers = required_of(reader, {"num_hidden_layers", "n_layer"});
  config.num_heads = required_of(reader, {"num_attention_heads", "n_head"});
  config.num_kv_heads = config.num_heads;
  config.ffn_hidden_size = first_integer(reader, {"intermediate_size", "n_inner"})
                               .value_or(four_times(config.hidden_size));
  config.max_position_embeddings =
      first_integer(reader, {"max_position_embeddings", "n_positions", "seq_length"})
          .value_or(info.max_position_embeddings);
  if (config.num_heads < 1 || config.hidden_size % config.num_heads != 0) {
    throw_error(ErrorCode::kCorruptData, "{}: the hidden size {} is not a multiple of the {} heads",
                reader.origin(), config.hidden_size, config.num_heads);
  }
  config.head_dim = config.hidden_size / config.num_heads;
  config.tie_word_embeddings = flag_or(reader, "tie_word_embeddings", info.tie_word_embeddings);
  config.rms_norm_eps =
      reader.number(neox ? "layer_norm_eps" : "layer_norm_epsilon").value_or(1e-5);
  config.initializer_range = reader.number("initializer_range").value_or(config.initializer_range);
  config.norm = NormType::kLayer;
  config.gated_mlp = false;
  config.qkv_bias = config.o_bias = flag_or(reader, "attention_bias", true);
  config.mlp_bias = true;
  config.position = neox                                   ? PositionType::kRope
                    : config.family == ModelFamily::kBloom ? PositionType::kAlibi
                                                           : PositionType::kLearned;
  config.embedding_norm = config.family == ModelFamily::kBloom;
  if (config.family != ModelFamily::kBloom) {  // which has no key for it
    read_activation(reader, neox ? "hidden_act" : "activation_function");
  }
}

void read_moe(const JsonReader& reader, ModelConfig& config) {
  switch (config.family) {
    case ModelFamily::kMixtral:
      config.moe.num_experts = reader.required_integer("num_local_experts");
      config.moe.experts_per_token = reader.required_integer("num_experts_per_tok");
      config.moe.ffn_hidden_size = config.ffn_hidden_size;
      break;
    case ModelFamily::kQwen2Moe:
    case ModelFamily::kQwen3Moe:
      read_qwen_moe(reader, config);
      break;
    case ModelFamily::kDeepSeekV2:
    case ModelFamily::kDeepSeekV3:
      read_deepseek_moe(reader, config);
      break;
    default:
      break;
  }
}

void read_mla(const JsonReader& reader, ModelConfig& config) {
  if (config.family != ModelFamily::kDeepSeekV2 && config.family != ModelFamily::kDeepSeekV3) {
    return;
  }
  MlaConfig& mla = config.mla;
  mla.q_lora_rank = reader.integer("q_lora_rank").value_or(0);
  mla.kv_lora_rank = reader.required_integer("kv_lora_rank");
  mla.rope_head_dim = reader.required_integer("qk_rope_head_dim");
  mla.nope_head_dim = reader.required_integer("qk_nope_head_dim");
  mla.v_head_dim = reader.required_integer("v_head_dim");
  config.num_kv_heads = config.num_heads;
  static constexpr int64_t kHuge = int64_t{1} << 32;  // refused by check_model_config
  config.head_dim = std::clamp<int64_t>(mla.rope_head_dim, 0, kHuge) +
                    std::clamp<int64_t>(mla.nope_head_dim, 0, kHuge);
}

void refuse_plain_window(const JsonReader& reader, const ModelConfig& config) {
  const bool mistral = config.family == ModelFamily::kMistral;
  if ((!mistral && config.family != ModelFamily::kMixtral) || reader.has("layer_types")) {
    return;
  }
  std::optional<int64_t> window = reader.integer("sliding_window");
  if (mistral && !reader.has("sliding_window")) {
    window = kMistralWindowDefault;
  }
  if (window && *window < config.max_position_embeddings) {
    refuse(reader, fmt::format("sliding_window {} (HF's default is {}) is not implemented; set it "
                               "to null for full attention",
                               *window, mistral ? "4096" : "null"));
  }
}

}  // namespace plait
