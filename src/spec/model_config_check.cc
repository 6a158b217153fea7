#include <initializer_list>

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
  if (rope.type != RopeType::kLlama3) {
    return;
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

struct Bound {
  const char* name;
  int64_t value;
  int64_t least;
  int64_t most;
};

void check_bounds(std::initializer_list<Bound> bounds, ErrorCode code, const std::string& origin) {
  for (const Bound& bound : bounds) {
    if (bound.value < bound.least || bound.value > bound.most) {
      bad_value(code, origin,
                fmt::format("{} is {}, but must be {} to {}", bound.name, bound.value, bound.least,
                            bound.most));
    }
  }
}

void check_moe(const ModelConfig& config, ErrorCode code, const std::string& origin) {
  const MoeConfig& moe = config.moe;
  if (moe.num_experts == 0 && moe.experts_per_token == 0) {
    return;
  }
  check_bounds(
      {{"the number of routed experts", moe.num_experts, 1, kExpertsMax},
       {"num_experts_per_tok", moe.experts_per_token, 1, moe.num_experts},
       {"moe_intermediate_size", moe.ffn_hidden_size, 1, int64_t{1} << 22},
       {"the size of the shared experts", moe.shared_ffn_hidden_size, 0, int64_t{1} << 24},
       {"the number of dense layers in front", moe.first_dense_layers, 0, config.num_layers},
       {"the period of MoE layers", moe.layer_period, 1, int64_t{1} << 12}},
      code, origin);
  if (moe.num_experts * moe.ffn_hidden_size > kExpertRowsMax) {
    bad_value(code, origin,
              fmt::format("{} experts of moe_intermediate_size {} are more than {} rows together",
                          moe.num_experts, moe.ffn_hidden_size, kExpertRowsMax));
  }
}

void check_mla(const ModelConfig& config, ErrorCode code, const std::string& origin) {
  const MlaConfig& mla = config.mla;
  if (mla.kv_lora_rank == 0 && mla.q_lora_rank == 0) {
    return;
  }
  static constexpr int64_t kRankMax = 1 << 16;
  static constexpr int64_t kHeadMax = 1 << 12;
  check_bounds({{"q_lora_rank", mla.q_lora_rank, 0, kRankMax},
                {"kv_lora_rank", mla.kv_lora_rank, 1, kRankMax},
                {"qk_rope_head_dim", mla.rope_head_dim, 1, kHeadMax},
                {"qk_nope_head_dim", mla.nope_head_dim, 0, kHeadMax},
                {"v_head_dim", mla.v_head_dim, 1, kHeadMax}},
               code, origin);
}

void check_family(const ModelConfig& config, ErrorCode code, const std::string& origin) {
  if (!is_trained(config.family)) {
    return;
  }
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
  check_mla(config, code, origin);  // first: head_dim is the sum of two of its sizes
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
  if (config.head_dim % 2 != 0 && config.position == PositionType::kRope) {
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
  check_moe(config, code, origin);
  check_family(config, code, origin);
}

Json to_hf_config(const ModelConfig& config, const std::string& dtype) {
  CHECK(is_trained(config.family));
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
  std::string part;
  if (config.moe.num_experts > 0) {
    part = "a mixture of experts";
  } else if (config.mla.kv_lora_rank > 0) {
    part = "multi-head latent attention";
  } else if (config.norm != NormType::kRms) {
    part = "LayerNorm";
  } else if (config.position != PositionType::kRope) {
    part = "a model with positions other than RoPE";
  } else if (!config.gated_mlp) {
    part = "an MLP without a gate";
  } else if (config.embedding_norm) {
    part = "a norm behind the embedding";
  } else if (config.rope.type != RopeType::kDefault && config.rope.type != RopeType::kLlama3) {
    part = std::string("rope type \"") + rope_type_name(config.rope.type) + "\"";
  }
  if (!part.empty() || !is_trained(config.family)) {
    throw_error(ErrorCode::kNotImplemented,
                "{}: model_type {}{}{} is not implemented: plait plan takes it, but what runs are "
                "qwen3, qwen2 and llama models with RoPE (default or llama3)",
                origin, family_name(config.family), part.empty() ? "" : " with ", part);
  }
}

}  // namespace plait
