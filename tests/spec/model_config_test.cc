#include "spec/model_config.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "base/error.h"
#include "base/json_full.h"
#include "spec/parsed_config.h"

namespace plait {
namespace {

std::string data_file(const std::string& name) {
  const char* folder = std::getenv("PLAIT_TEST_DATA");
  return std::string(folder == nullptr ? "tests/data" : folder) + "/config/" + name;
}

Json load(const std::string& name) {
  return read_json(data_file(name));
}

// Parsing `json` fails with `code` and a message that holds `part`.
void expect_error(const Json& json, ErrorCode code, const std::string& part) {
  try {
    parse(json);
    ADD_FAILURE() << "accepted, expected an error with '" << part << "'";
  } catch (const Error& error) {
    EXPECT_STREQ(error_code_name(error.code()), error_code_name(code)) << error.message();
    EXPECT_NE(error.message().find(part), std::string::npos) << error.message();
    EXPECT_EQ(error.message().find("config.json"), 0U) << error.message();
  }
}

// The same with one key of tiny_llama replaced.
void expect_key_error(const std::string& key, const Json& value, ErrorCode code) {
  Json json = load("tiny_llama.json");
  json[key] = value;
  SCOPED_TRACE(key + " = " + dump_json(value));
  expect_error(json, code, key);
}

TEST(ModelConfig, ReadsQwen3) {
  const ModelConfig config = load_model_config(data_file("tiny_qwen3.json"));
  EXPECT_EQ(config.family, ModelFamily::kQwen3);
  EXPECT_EQ(config.vocab_size, 320);
  EXPECT_EQ(config.hidden_size, 64);
  EXPECT_EQ(config.ffn_hidden_size, 160);
  EXPECT_EQ(config.num_layers, 4);
  EXPECT_EQ(config.num_heads, 4);
  EXPECT_EQ(config.num_kv_heads, 2);
  EXPECT_EQ(config.head_dim, 32);
  EXPECT_EQ(config.max_position_embeddings, 256);
  EXPECT_DOUBLE_EQ(config.rms_norm_eps, 1e-6);
  EXPECT_TRUE(config.tie_word_embeddings);
  EXPECT_TRUE(config.qk_norm);
  EXPECT_FALSE(config.qkv_bias);
  EXPECT_FALSE(config.o_bias);
  EXPECT_EQ(config.rope.type, RopeType::kDefault);
  EXPECT_DOUBLE_EQ(config.rope.theta, 1e6);
  EXPECT_EQ(config.bos_token_id, 1);
  EXPECT_EQ(config.eos_token_id, 2);
}

TEST(ModelConfig, ReadsQwen2) {
  const ModelConfig config = load_model_config(data_file("tiny_qwen2.json"));
  EXPECT_EQ(config.family, ModelFamily::kQwen2);
  EXPECT_EQ(config.head_dim, 8);
  EXPECT_FALSE(config.qk_norm);
  EXPECT_TRUE(config.qkv_bias);
  EXPECT_FALSE(config.o_bias);
  EXPECT_FALSE(config.mlp_bias);
}

TEST(ModelConfig, ReadsLlamaOfTransformers4WithLlama3Rope) {
  const ModelConfig config = load_model_config(data_file("llama3_rope_v4.json"));
  EXPECT_EQ(config.family, ModelFamily::kLlama);
  EXPECT_EQ(config.head_dim, 16);
  EXPECT_EQ(config.num_kv_heads, 1);
  EXPECT_TRUE(config.qkv_bias);
  EXPECT_TRUE(config.o_bias);
  EXPECT_TRUE(config.mlp_bias);
  EXPECT_EQ(config.rope.type, RopeType::kLlama3);
  EXPECT_DOUBLE_EQ(config.rope.theta, 500000.0);
  EXPECT_DOUBLE_EQ(config.rope.factor, 8);
  EXPECT_DOUBLE_EQ(config.rope.low_freq_factor, 1);
  EXPECT_DOUBLE_EQ(config.rope.high_freq_factor, 4);
  EXPECT_EQ(config.rope.original_max_position_embeddings, 8192);
  EXPECT_EQ(config.eos_token_id, 128001);
}

TEST(ModelConfig, OldAndNewStyleAgree) {
  Json json = load("llama3_rope_v4.json");
  const ModelConfig old_style = parse(json);
  json["rope_parameters"] = json["rope_scaling"];
  json["rope_parameters"]["rope_theta"] = json["rope_theta"];
  json.erase("rope_scaling");
  json.erase("rope_theta");
  const ModelConfig new_style = parse(json);
  EXPECT_EQ(new_style.rope.type, RopeType::kLlama3);
  EXPECT_EQ(new_style.rope.theta, old_style.rope.theta);
  EXPECT_EQ(new_style.rope.factor, old_style.rope.factor);
}

TEST(ModelConfig, AbsentKeysTakeHfDefaults) {
  const Json bare = {{"architectures", Json::array({"LlamaForCausalLM"})},
                     {"vocab_size", 100},
                     {"hidden_size", 64},
                     {"intermediate_size", 96},
                     {"num_hidden_layers", 2},
                     {"num_attention_heads", 4}};
  const ModelConfig llama = parse(bare);
  EXPECT_EQ(llama.num_kv_heads, 4);
  EXPECT_EQ(llama.head_dim, 16);
  EXPECT_EQ(llama.max_position_embeddings, 2048);
  EXPECT_FALSE(llama.tie_word_embeddings);
  EXPECT_DOUBLE_EQ(llama.rms_norm_eps, 1e-6);
  EXPECT_DOUBLE_EQ(llama.rope.theta, 10000.0);
  EXPECT_EQ(llama.bos_token_id, 1);
  EXPECT_EQ(llama.eos_token_id, 2);

  Json qwen3 = bare;
  qwen3["architectures"] = Json::array({"Qwen3ForCausalLM"});
  // Absent: Qwen3Config's own 32, which does not divide 4 heads; null: one per query head.
  expect_error(qwen3, ErrorCode::kCorruptData, "num_key_value_heads 32");
  qwen3["num_key_value_heads"] = nullptr;
  EXPECT_EQ(parse(qwen3).num_kv_heads, 4);
  EXPECT_EQ(parse(qwen3).head_dim, 128);
  EXPECT_EQ(parse(qwen3).max_position_embeddings, 32768);
  EXPECT_EQ(parse(qwen3).eos_token_id, -1);
}

TEST(ModelConfig, UnknownModelsAreRefusedByName) {
  for (const char* name : {"FalconForCausalLM", "Qwen3NextForCausalLM", "LlamaModel", ""}) {
    Json json = load("tiny_llama.json");
    json["architectures"] = Json::array({name});
    expect_error(json, ErrorCode::kNotImplemented, name);
  }
  Json json = load("tiny_llama.json");
  for (const char* type : {"falcon", "custom", ""}) {
    json["model_type"] = type;
    expect_error(json, ErrorCode::kNotImplemented, type);
  }
  json["model_type"] = "qwen2";
  expect_error(json, ErrorCode::kCorruptData, "model_type is qwen2");
  json.erase("architectures");
  json.erase("model_type");
  expect_error(json, ErrorCode::kCorruptData, "architectures is missing");
}

TEST(ModelConfig, UnknownRopeTypesAreRefusedByName) {
  for (const char* type : {"su", "mrope", "default3"}) {
    for (const char* key : {"type", "rope_type"}) {
      Json json = load("llama3_rope_v4.json");
      json["rope_scaling"] = Json::object({{key, type}, {"factor", 2.0}});
      expect_error(json, ErrorCode::kNotImplemented, type);
      json["rope_parameters"] = json["rope_scaling"];
      json.erase("rope_scaling");
      expect_error(json, ErrorCode::kNotImplemented, type);
    }
  }
  Json json = load("tiny_llama.json");
  json["rope_parameters"] = Json::object({{"full_attention", Json::object()}});
  expect_error(json, ErrorCode::kNotImplemented, "full_attention");
}

TEST(ModelConfig, ScaledRopeIsPlannedButNotTrained) {
  for (const char* type : {"linear", "dynamic", "yarn", "longrope"}) {
    Json json = load("llama3_rope_v4.json");
    json["rope_scaling"] = Json::object({{"rope_type", type}, {"factor", 4.0}});
    EXPECT_EQ(parse(json).rope.factor, 4.0);
    expect_planned_only(parse(json), type);
  }
  EXPECT_NO_THROW(check_trainable(load_model_config(data_file("llama3_rope_v4.json")), "x"));
}

TEST(ModelConfig, ContradictingRopeKeysAreRefused) {
  Json json = load("tiny_llama.json");
  json["rope_theta"] = 20000.0;
  expect_error(json, ErrorCode::kCorruptData, "rope_theta");
  json.erase("rope_theta");
  json["rope_scaling"] = load("llama3_rope_v4.json")["rope_scaling"];
  expect_error(json, ErrorCode::kCorruptData, "different things");
}

TEST(ModelConfig, SlidingWindowsAreRefusedWhereALayerHasOne) {
  Json json = load("tiny_qwen2.json");
  json["use_sliding_window"] = true;
  json["sliding_window"] = 128;
  EXPECT_NO_THROW(parse(json));  // layer_types says full attention everywhere
  json["layer_types"][1] = "sliding_attention";
  expect_error(json, ErrorCode::kNotImplemented, "sliding_attention");
  json.erase("layer_types");
  EXPECT_NO_THROW(parse(json));  // from layer 28 of 2
  json["max_window_layers"] = 1;
  expect_error(json, ErrorCode::kNotImplemented, "use_sliding_window");
  json.erase("sliding_window");  // the default is a window
  expect_error(json, ErrorCode::kNotImplemented, "use_sliding_window");
  json["sliding_window"] = nullptr;
  EXPECT_NO_THROW(parse(json));
  json["layer_types"] = Json::array({"full_attention"});
  expect_error(json, ErrorCode::kCorruptData, "layer_types");
}

TEST(ModelConfig, UnsupportedFeaturesAreRefused) {
  expect_key_error("hidden_act", "gelu", ErrorCode::kNotImplemented);
  expect_key_error("quantization_config", Json::object({{"quant_method", "gptq"}}),
                   ErrorCode::kNotImplemented);
  expect_key_error("quantization_config", "gptq", ErrorCode::kNotImplemented);
  expect_key_error("attention_dropout", 0.1, ErrorCode::kNotImplemented);
  expect_key_error("partial_rotary_factor", 0.5, ErrorCode::kNotImplemented);
}

TEST(ModelConfig, WrongTypesAndSizesAreRefused) {
  const Json bad_values =
      Json::array({0, -1, 1.5, 64.0, "64", true, 9223372036854775807, 1e30,
                   uint64_t{18446744073709551615U}, 1LL << 32, Json::array(), Json::object()});
  for (const char* key :
       {"vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers",
        "num_attention_heads", "num_key_value_heads", "head_dim", "max_position_embeddings"}) {
    for (const Json& value : bad_values) {
      expect_key_error(key, value, ErrorCode::kCorruptData);
    }
  }
  for (const char* key : {"vocab_size", "hidden_size", "num_attention_heads"}) {
    expect_key_error(key, nullptr, ErrorCode::kCorruptData);
  }
  expect_key_error("num_key_value_heads", 3, ErrorCode::kCorruptData);
  expect_key_error("head_dim", 7, ErrorCode::kCorruptData);
  expect_key_error("rms_norm_eps", "1e-6", ErrorCode::kCorruptData);
  expect_key_error("rms_norm_eps", 0, ErrorCode::kCorruptData);
  expect_key_error("initializer_range", -1, ErrorCode::kCorruptData);
  expect_key_error("tie_word_embeddings", 1, ErrorCode::kCorruptData);
  expect_key_error("attention_bias", "yes", ErrorCode::kCorruptData);
  expect_key_error("architectures", "LlamaForCausalLM", ErrorCode::kCorruptData);
  expect_key_error("architectures", Json::array(), ErrorCode::kCorruptData);
  expect_key_error("architectures", Json::array({1}), ErrorCode::kCorruptData);
  expect_key_error("eos_token_id", Json::array({2, "x"}), ErrorCode::kCorruptData);
  expect_key_error("eos_token_id", 1LL << 40, ErrorCode::kCorruptData);
  expect_key_error("rope_parameters", Json::array({1, 2}), ErrorCode::kCorruptData);
  expect_error(Json::array(), ErrorCode::kCorruptData, "object");
  for (const Json& theta : Json::array({-1.0, 0, "x", 1e300})) {
    Json json = load("tiny_llama.json");
    json["rope_parameters"]["rope_theta"] = theta;
    expect_error(json, ErrorCode::kCorruptData, "rope_theta");
  }
}

TEST(ModelConfig, Llama3RopeNeedsItsParameters) {
  for (const char* key : {"factor", "low_freq_factor", "high_freq_factor"}) {
    Json json = load("llama3_rope_v4.json");
    json["rope_scaling"].erase(key);
    expect_error(json, ErrorCode::kCorruptData, key);
    json["rope_scaling"][key] = 0;
    expect_error(json, ErrorCode::kCorruptData, key);
  }
  Json json = load("llama3_rope_v4.json");
  json["rope_scaling"].erase("original_max_position_embeddings");
  EXPECT_EQ(parse(json).rope.original_max_position_embeddings, 131072);
}

TEST(ModelConfig, HfConfigReadsBackEqual) {
  for (const char* name :
       {"tiny_llama.json", "tiny_qwen2.json", "tiny_qwen3.json", "llama3_rope_v4.json"}) {
    SCOPED_TRACE(name);
    const ModelConfig config = load_model_config(data_file(name));
    const Json written = to_hf_config(config, "float32");
    // Through text, as in a file.
    const ModelConfig again = parse(parse_json(dump_json(written), "x"));
    EXPECT_EQ(dump_json(to_hf_config(again, "float32")), dump_json(written));
    EXPECT_EQ(again.family, config.family);
    EXPECT_EQ(again.head_dim, config.head_dim);
    EXPECT_EQ(again.qkv_bias, config.qkv_bias);
    EXPECT_EQ(again.o_bias, config.o_bias);
    EXPECT_EQ(again.rope.theta, config.rope.theta);
    EXPECT_EQ(again.rope.type, config.rope.type);
    EXPECT_EQ(again.eos_token_id, config.eos_token_id);
    EXPECT_EQ(written["dtype"], "float32");
  }
}

TEST(ModelConfig, ChecksBuiltConfigs) {
  ModelConfig config = load_model_config(data_file("tiny_llama.json"));
  EXPECT_NO_THROW(check_model_config(config, "preset"));
  config.qk_norm = true;
  try {
    check_model_config(config, "preset");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    EXPECT_NE(error.message().find("qk_norm"), std::string::npos);
  }
}

TEST(ModelConfig, MissingFileIsNotFound) {
  try {
    load_model_config("/nonexistent/config.json");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kNotFound);
  }
}

}  // namespace
}  // namespace plait
