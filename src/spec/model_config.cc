#include "spec/model_config.h"

#include <filesystem>
#include <optional>
#include <system_error>
#include <vector>

#include "base/error.h"
#include "base/json_full.h"
#include "base/json_reader.h"
#include "spec/model_family.h"

namespace plait {
namespace {

// HF's default of head_dim in Qwen3Config.
constexpr int64_t kQwen3HeadDimDefault = 128;
// HF's max_window_layers and sliding_window of the Qwen families.
constexpr int64_t kMaxWindowLayersDefault = 28;
// Baichuan's 7B model, which has RoPE.
constexpr int64_t kBaichuanRopeHidden = 4096;

[[noreturn]] void unknown_model(const JsonReader& reader, const std::string& what) {
  std::vector<std::string> known;
  for (const FamilyInfo& info : kFamilies) {
    if (info.architecture[0] != '\0') {
      known.push_back(fmt::format("{} (model_type {})", info.architecture, info.model_type));
    }
  }
  throw_error(ErrorCode::kNotImplemented, "{}: {} is not implemented; known are {}",
              reader.origin(), what, fmt::join(known, ", "));
}

std::optional<ModelFamily> family_of_architecture(const JsonReader& reader) {
  const Json* architectures = reader.find("architectures");
  if (architectures == nullptr) {
    return std::nullopt;
  }
  if (!architectures->is_array() || architectures->empty() || !architectures->front().is_string()) {
    reader.wrong_type("architectures", *architectures, "a list with the name of a model class");
  }
  const std::string name = architectures->front().get<std::string>();
  for (const FamilyInfo& info : kFamilies) {
    if (info.architecture[0] != '\0' && name == info.architecture) {
      return info.family;
    }
  }
  unknown_model(reader, "architecture " + shown_json(architectures->front()));
}

std::optional<ModelFamily> family_of_model_type(const JsonReader& reader) {
  const std::optional<std::string> model_type = reader.text("model_type");
  if (!model_type) {
    return std::nullopt;
  }
  for (const FamilyInfo& info : kFamilies) {
    if (info.architecture[0] != '\0' && *model_type == info.model_type) {
      return info.family;
    }
  }
  unknown_model(reader, "model_type " + shown_json(*reader.find("model_type")));
}

ModelFamily read_family(const JsonReader& reader) {
  const std::optional<ModelFamily> architecture = family_of_architecture(reader);
  const std::optional<ModelFamily> model_type = family_of_model_type(reader);
  if (!architecture && !model_type) {
    reader.missing("architectures");
  }
  if (architecture && model_type && *architecture != *model_type) {
    throw_error(ErrorCode::kCorruptData, "{}: architectures names {}, but model_type is {}",
                reader.origin(), family_info(*architecture).architecture,
                family_info(*model_type).model_type);
  }
  return architecture ? *architecture : *model_type;
}

struct RopeDefaults {
  double theta;
  int64_t max_position_embeddings;
};

RopeType rope_type(const JsonReader& reader, const std::string& name) {
  for (const RopeType type : {RopeType::kLlama3, RopeType::kLinear, RopeType::kDynamic,
                              RopeType::kYarn, RopeType::kLongRope}) {
    if (name == rope_type_name(type)) {
      return type;
    }
  }
  throw_error(ErrorCode::kNotImplemented,
              "{}: rope type {} is not implemented; known are default, llama3, linear, dynamic, "
              "yarn and longrope",
              reader.origin(), shown_json(Json(name)));
}

// One rope_parameters or rope_scaling object.
RopeConfig read_rope_object(const JsonReader& reader, const RopeDefaults& defaults) {
  RopeConfig rope;
  for (const char* per_layer : {"full_attention", "sliding_attention"}) {
    if (reader.find(per_layer) != nullptr) {
      throw_error(ErrorCode::kNotImplemented,
                  "{}: a rope of its own for {} layers is not implemented", reader.origin(),
                  per_layer);
    }
  }
  std::optional<std::string> type = reader.text("rope_type");
  if (!type) {
    type = reader.text("type");
  }
  if (reader.number("partial_rotary_factor").value_or(1.0) != 1.0) {
    throw_error(ErrorCode::kNotImplemented,
                "{}: partial_rotary_factor other than 1 is not implemented", reader.origin());
  }
  rope.theta = reader.number("rope_theta").value_or(defaults.theta);
  if (!type || *type == "default") {
    return rope;
  }
  rope.type = rope_type(reader, *type);
  if (rope.type != RopeType::kLlama3) {
    rope.factor = reader.number("factor").value_or(rope.factor);
    return rope;
  }
  rope.factor = reader.required_number("factor");
  rope.low_freq_factor = reader.required_number("low_freq_factor");
  rope.high_freq_factor = reader.required_number("high_freq_factor");
  // HF 5 takes the model's own length when the key is absent.
  rope.original_max_position_embeddings =
      reader.integer("original_max_position_embeddings").value_or(defaults.max_position_embeddings);
  return rope;
}

bool same_rope(const RopeConfig& a, const RopeConfig& b) {
  return a.type == b.type && a.theta == b.theta &&
         (a.type != RopeType::kLlama3 ||
          (a.factor == b.factor && a.low_freq_factor == b.low_freq_factor &&
           a.high_freq_factor == b.high_freq_factor &&
           a.original_max_position_embeddings == b.original_max_position_embeddings));
}

RopeConfig read_rope(const JsonReader& reader, int64_t max_position_embeddings) {
  const std::optional<double> outer_theta = reader.number("rope_theta");
  RopeDefaults defaults{outer_theta.value_or(RopeConfig{}.theta), max_position_embeddings};
  const Json* parameters = reader.find("rope_parameters");
  const Json* scaling = reader.find("rope_scaling");
  std::optional<RopeConfig> rope;
  if (parameters != nullptr) {
    rope =
        read_rope_object(JsonReader(*parameters, reader.origin() + ": rope_parameters"), defaults);
    if (outer_theta && *outer_theta != rope->theta) {
      throw_error(ErrorCode::kCorruptData,
                  "{}: rope_theta is {}, but rope_parameters has rope_theta {}; keep one",
                  reader.origin(), *outer_theta, rope->theta);
    }
    defaults.theta = rope->theta;
  }
  if (scaling != nullptr && !(scaling->is_object() && scaling->empty())) {
    const RopeConfig old =
        read_rope_object(JsonReader(*scaling, reader.origin() + ": rope_scaling"), defaults);
    if (rope && !same_rope(*rope, old)) {
      throw_error(ErrorCode::kCorruptData,
                  "{}: rope_scaling and rope_parameters say different things; keep one of them",
                  reader.origin());
    }
    rope = old;
  }
  if (rope) {
    return *rope;
  }
  RopeConfig plain;
  plain.theta = defaults.theta;
  return plain;
}

void refuse_sliding_window(const JsonReader& reader, const ModelConfig& config) {
  const Json* layer_types = reader.find("layer_types");
  if (layer_types != nullptr) {
    if (!layer_types->is_array()) {
      reader.wrong_type("layer_types", *layer_types, "a list of strings");
    }
    for (const Json& type : *layer_types) {
      if (!type.is_string() || type.get_ref<const std::string&>() != "full_attention") {
        refuse(reader,
               "layer type " + shown_json(type) + " is not implemented; only full_attention is");
      }
    }
    if (static_cast<int64_t>(layer_types->size()) != config.num_layers) {
      throw_error(ErrorCode::kCorruptData,
                  "{}: layer_types lists {} layers, num_hidden_layers is {}", reader.origin(),
                  layer_types->size(), config.num_layers);
    }
    return;
  }
  // Without layer_types, the window holds from layer max_window_layers on. A null sliding_window
  // switches it off; an absent one means HF's default of 4096.
  const bool has_key = reader.find("sliding_window") != nullptr;
  const bool off = !has_key && reader.has("sliding_window");
  if (reader.flag("use_sliding_window") && !off) {
    const int64_t first = reader.integer("max_window_layers").value_or(kMaxWindowLayersDefault);
    if (first < config.num_layers) {
      refuse(reader,
             fmt::format("use_sliding_window true is not implemented (layers {} to {} would "
                         "have a window); set it to false for full attention",
                         first, config.num_layers - 1));
    }
  }
}

void refuse_quantization(const JsonReader& reader, const ModelConfig& config) {
  const Json* quantization = reader.find("quantization_config");
  if (quantization == nullptr) {
    return;
  }
  std::string method = "of an unnamed kind";
  if (quantization->is_object() && quantization->contains("quant_method")) {
    method = shown_json((*quantization)["quant_method"]);
  }
  // DeepSeek publishes V3 in 8 bit only; what is planned is the model behind it.
  if (config.family != ModelFamily::kDeepSeekV3 || method != "\"fp8\"") {
    refuse(reader,
           "quantization_config (" + method + ") is not implemented; use the unquantised model");
  }
}

// Keys that change what the model computes, in ways that are not here.
void refuse_unsupported(const JsonReader& reader, const ModelConfig& config) {
  const std::string activation = reader.text("hidden_act").value_or("silu");
  if (activation != "silu") {
    refuse(reader,
           "hidden_act " + shown_json(Json(activation)) + " is not implemented; only silu is");
  }
  refuse_quantization(reader, config);
  if (reader.number("attention_dropout").value_or(0.0) != 0.0) {
    refuse(reader, "attention_dropout " + shown_json(*reader.find("attention_dropout")) +
                       " is not implemented; set it to 0");
  }
  if (reader.flag("use_mrope")) {
    refuse(reader, "use_mrope true is not implemented");
  }
  if (reader.number("partial_rotary_factor").value_or(1.0) != 1.0) {
    refuse(reader, "partial_rotary_factor other than 1 is not implemented");
  }
  refuse_sliding_window(reader, config);
  refuse_plain_window(reader, config);
}

void read_biases(const JsonReader& reader, ModelConfig& config) {
  const bool attention_bias = reader.flag("attention_bias");
  switch (config.family) {
    case ModelFamily::kQwen2:  // q, k and v always have one, o never
      config.qkv_bias = true;
      break;
    case ModelFamily::kQwen3:
      config.qk_norm = true;
      config.qkv_bias = config.o_bias = attention_bias;
      break;
    case ModelFamily::kLlama:
      config.qkv_bias = config.o_bias = attention_bias;
      config.mlp_bias = reader.flag("mlp_bias");
      break;
    case ModelFamily::kQwen2Moe:
      config.qkv_bias = flag_or(reader, "qkv_bias", true);
      break;
    case ModelFamily::kQwen3Moe:
      config.qk_norm = true;
      config.qkv_bias = config.o_bias = attention_bias;
      break;
    default:
      if (attention_bias) {
        refuse(reader, fmt::format("attention_bias true is not implemented for {}",
                                   family_name(config.family)));
      }
      break;
  }
}

void read_heads(const JsonReader& reader, ModelConfig& config) {
  config.num_heads = reader.required_integer("num_attention_heads");
  const std::optional<int64_t> kv_heads = reader.integer("num_key_value_heads");
  const int64_t absent = family_info(config.family).num_kv_heads;
  if (kv_heads) {
    config.num_kv_heads = *kv_heads;
  } else {
    // HF: null means one per query head; an absent key means the class's default.
    config.num_kv_heads =
        absent > 0 && !reader.has("num_key_value_heads") ? absent : config.num_heads;
  }
  const std::optional<int64_t> head_dim = reader.integer("head_dim");
  if (head_dim) {
    config.head_dim = *head_dim;
  } else if (config.family == ModelFamily::kQwen3) {
    config.head_dim = kQwen3HeadDimDefault;
  } else if (config.num_heads > 0 && config.hidden_size % config.num_heads == 0) {
    config.head_dim = config.hidden_size / config.num_heads;
  } else {
    throw_error(ErrorCode::kCorruptData,
                "{}: head_dim is absent and hidden_size {} is not a multiple of "
                "num_attention_heads {}",
                reader.origin(), config.hidden_size, config.num_heads);
  }
}

// A token id, or the first of a list of them; -1 for none.
int64_t read_token_id(const JsonReader& reader, const char* key, int64_t absent) {
  const Json* value = reader.find(key);
  if (value == nullptr) {
    return reader.has(key) ? -1 : absent;
  }
  if (value->is_array()) {
    if (value->empty()) {
      return -1;
    }
    for (const Json& entry : *value) {
      reader.to_integer(key, entry);
    }
    value = &value->front();
  }
  const int64_t id = reader.to_integer(key, *value);
  if (id < -1 || id > INT32_MAX) {
    reader.wrong_type(key, *value, "a token id (0 to 2147483647), -1 or null for none");
  }
  return id;
}

// Every family but is_gpt: RMSNorm, a gated MLP, HF's usual keys.
void read_llama_like(const JsonReader& reader, ModelConfig& config) {
  const FamilyInfo& info = family_info(config.family);
  const bool baichuan = config.family == ModelFamily::kBaichuan;
  config.vocab_size = reader.required_integer("vocab_size");
  config.hidden_size = reader.required_integer("hidden_size");
  config.ffn_hidden_size = reader.required_integer("intermediate_size");
  config.num_layers = reader.required_integer("num_hidden_layers");
  read_heads(reader, config);
  std::optional<int64_t> positions = reader.integer("max_position_embeddings");
  if (!positions && baichuan) {
    positions = reader.integer("model_max_length");
  }
  config.max_position_embeddings = positions.value_or(info.max_position_embeddings);
  config.rms_norm_eps = reader.number("rms_norm_eps").value_or(config.rms_norm_eps);
  config.initializer_range = reader.number("initializer_range").value_or(config.initializer_range);
  config.tie_word_embeddings = flag_or(reader, "tie_word_embeddings", info.tie_word_embeddings);
  if (baichuan && config.hidden_size != kBaichuanRopeHidden) {
    config.position = PositionType::kAlibi;
  }
  read_biases(reader, config);
  read_moe(reader, config);
  read_mla(reader, config);
  config.rope = read_rope(reader, config.max_position_embeddings);
  const bool llama = config.family == ModelFamily::kLlama;
  config.bos_token_id = read_token_id(reader, "bos_token_id", llama ? 1 : -1);
  config.eos_token_id = read_token_id(reader, "eos_token_id", llama ? 2 : -1);
  refuse_unsupported(reader, config);
}

}  // namespace

void refuse(const JsonReader& reader, const std::string& what) {
  throw_error(ErrorCode::kNotImplemented, "{}: {}", reader.origin(), what);
}

const char* family_name(ModelFamily family) {
  return family_info(family).model_type;
}

const char* rope_type_name(RopeType type) {
  static constexpr const char* kNames[] = {"default", "llama3", "linear",
                                           "dynamic", "yarn",   "longrope"};
  return kNames[static_cast<size_t>(type)];
}

ModelConfig parse_model_config(const Json& json, const std::string& origin) {
  const JsonReader reader(json, origin);
  ModelConfig config;
  config.family = read_family(reader);
  if (is_gpt(config.family)) {
    read_gpt(reader, config);
    refuse_quantization(reader, config);
  } else {
    read_llama_like(reader, config);
  }
  check_model_config_as(config, ErrorCode::kCorruptData, origin);
  return config;
}

ModelConfig load_model_config(const std::string& path) {
  std::error_code ignored;
  const std::filesystem::path given(path);
  const std::string file =
      std::filesystem::is_directory(given, ignored) ? (given / "config.json").string() : path;
  return parse_model_config(read_json(file), file);
}

}  // namespace plait
