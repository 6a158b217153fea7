#include "base/error.h"
#include "base/json_full.h"
#include "spec/model_config.h"
#include "spec/model_family.h"

namespace plait {
namespace {

[[noreturn]] void bad_value(ErrorCode code, const std::string& origin, const std::string& what) {
  throw_error(code, "{}: {}", origin, what);
}

void check_rope(const ModelConfig& config, ErrorCode code, const std::string& origin) {
  const RopeConfig& rope = config.rope;
  // Written so that NaN fails.
  if (!(rope.theta > 0 && rope.theta <= 1e18)) {
    bad_value(code, origin,
              fmt::format("rope_theta {} must be above 0 and at most 1e18", rope.theta));
  }
  if (rope.type == RopeType::kDefault) {
    return;
  }
  if (!(rope.factor >= 1 && rope.factor <= 1e6)) {
    bad_value(code, origin, fmt::format("rope factor {} must be 1 to 1e6", rope.factor));
  }
  if (!(rope.low_freq_factor > 0 && rope.high_freq_factor > rope.low_freq_factor &&
        rope.high_freq_factor <= 1e6)) {
    bad_value(code, origin,
              fmt::format("rope low_freq_factor {} must be above 0 and below high_freq_factor {}, "
                          "which must be at most 1e6",
                          rope.low_freq_factor, rope.high_freq_factor));
  }
  if (rope.original_max_position_embeddings < 1 ||
      rope.original_max_position_embeddings > (int64_t{1} << 31)) {
    bad_value(code, origin,
              fmt::format("rope original_max_position_embeddings {} must be 1 to 2147483648",
                          rope.original_max_position_embeddings));
  }
}

void check_family(const ModelConfig& config, ErrorCode code, const std::string& origin) {
  const bool qwen2 = config.family == ModelFamily::kQwen2;
  const bool o_bias_wanted = !qwen2 && config.qkv_bias;
  if (config.qk_norm != (config.family == ModelFamily::kQwen3) || (qwen2 && !config.qkv_bias) ||
      config.o_bias != o_bias_wanted || (config.mlp_bias && config.family != ModelFamily::kLlama)) {
    bad_value(
        code, origin,
        fmt::format("qk_norm {}, qkv_bias {}, o_bias {}, mlp_bias {} do not make a {} model: "
                    "qk_norm is Qwen3's; Qwen2 has biases on q, k, v alone; in Llama and Qwen3 "
                    "attention_bias sets q, k, v and o; mlp_bias is Llama's",
                    config.qk_norm, config.qkv_bias, config.o_bias, config.mlp_bias,
                    family_name(config.family)));
  }
}

Json rope_json(const RopeConfig& rope, bool with_theta) {
  Json json = Json::object();
  if (with_theta) {
    json["rope_theta"] = rope.theta;
  }
  if (rope.type == RopeType::kDefault) {
    json["rope_type"] = "default";
    return json;
  }
  json["rope_type"] = "llama3";
  json["factor"] = rope.factor;
  json["low_freq_factor"] = rope.low_freq_factor;
  json["high_freq_factor"] = rope.high_freq_factor;
  json["original_max_position_embeddings"] = rope.original_max_position_embeddings;
  return json;
}

Json token_json(int64_t id) {
  return id < 0 ? Json(nullptr) : Json(id);
}

}  // namespace

void check_model_config_as(const ModelConfig& config, ErrorCode code, const std::string& origin) {
  for (const SizeLimit& limit : kSizeLimits) {
    const int64_t value = config.*limit.field;
    if (value < 1 || value > limit.most) {
      bad_value(code, origin,
                fmt::format("{} is {}, but must be 1 to {}", limit.key, value, limit.most));
    }
  }
  if (config.num_heads % config.num_kv_heads != 0) {
    bad_value(code, origin,
              fmt::format("num_attention_heads {} is not a multiple of num_key_value_heads {}",
                          config.num_heads, config.num_kv_heads));
  }
  if (config.head_dim % 2 != 0) {
    bad_value(code, origin,
              fmt::format("head_dim {} is odd, but RoPE turns pairs", config.head_dim));
  }
  if (!(config.rms_norm_eps > 0 && config.rms_norm_eps < 1)) {
    bad_value(code, origin,
              fmt::format("rms_norm_eps {} must be above 0 and below 1", config.rms_norm_eps));
  }
  if (!(config.initializer_range >= 0 && config.initializer_range <= 1)) {
    bad_value(code, origin,
              fmt::format("initializer_range {} must be 0 to 1", config.initializer_range));
  }
  check_rope(config, code, origin);
  check_family(config, code, origin);
}

Json to_hf_config(const ModelConfig& config, const std::string& dtype) {
  const FamilyInfo& info = family_info(config.family);
  const bool llama = config.family == ModelFamily::kLlama;
  Json json = Json::object();
  json["architectures"] = Json::array({info.architecture});
  json["model_type"] = info.model_type;
  json["dtype"] = dtype;
  json["torch_dtype"] = dtype;
  for (const SizeLimit& limit : kSizeLimits) {
    json[limit.key] = config.*limit.field;
  }
  json["hidden_act"] = "silu";
  json["rms_norm_eps"] = config.rms_norm_eps;
  json["initializer_range"] = config.initializer_range;
  json["tie_word_embeddings"] = config.tie_word_embeddings;
  json["attention_dropout"] = 0.0;
  if (config.family != ModelFamily::kQwen2) {
    json["attention_bias"] = config.qkv_bias;
  }
  if (llama) {
    json["mlp_bias"] = config.mlp_bias;
  } else {
    json["use_sliding_window"] = false;
    json["sliding_window"] = nullptr;
    json["layer_types"] =
        Json::array_t(static_cast<size_t>(config.num_layers), Json("full_attention"));
  }
  json["rope_parameters"] = rope_json(config.rope, true);
  json["rope_theta"] = config.rope.theta;
  json["rope_scaling"] =
      config.rope.type == RopeType::kDefault ? Json(nullptr) : rope_json(config.rope, false);
  json["bos_token_id"] = token_json(config.bos_token_id);
  json["eos_token_id"] = token_json(config.eos_token_id);
  json["use_cache"] = true;
  return json;
}

void check_model_config(const ModelConfig& config, const std::string& origin) {
  check_model_config_as(config, ErrorCode::kInvalidArgument, origin);
}

void check_trainable(const ModelConfig& config, const std::string& origin) {
  const char* part = config.moe.num_experts > 0               ? "a mixture of experts"
                     : config.mla.kv_lora_rank > 0            ? "multi-head latent attention"
                     : config.norm != NormType::kRms          ? "LayerNorm"
                     : config.position != PositionType::kRope ? "positions other than RoPE"
                     : !config.gated_mlp                      ? "an MLP without a gate"
                     : config.embedding_norm                  ? "a norm behind the embedding"
                                                              : nullptr;
  if (part != nullptr) {
    throw_error(
        ErrorCode::kNotImplemented,
        "{}: {} is planned for, but not executed; plait train runs Qwen3, Qwen2 and Llama 3",
        origin, part);
  }
}

}  // namespace plait
