// Families that plait plans but does not train: their config.json and their parameter tables.
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "base/csv.h"
#include "base/error.h"
#include "base/json_full.h"
#include "spec/model_config.h"
#include "spec/parameter_table.h"
#include "spec/parsed_config.h"

namespace plait {
namespace {

int64_t total(const ModelConfig& config) {
  return count_parameters(make_parameter_table(config, {}));
}

int64_t active(const ModelConfig& config) {
  return count_active_parameters(make_parameter_table(config, {}), config);
}

Json base(const char* architecture, const char* model_type) {
  return {{"architectures", Json::array({architecture})}, {"model_type", model_type}};
}

Json mixtral() {
  Json json = base("MixtralForCausalLM", "mixtral");
  json.update(Json{{"vocab_size", 32000},
                   {"hidden_size", 4096},
                   {"intermediate_size", 14336},
                   {"num_hidden_layers", 32},
                   {"num_attention_heads", 32},
                   {"num_key_value_heads", 8},
                   {"num_local_experts", 8},
                   {"num_experts_per_tok", 2},
                   {"sliding_window", nullptr},
                   {"rope_theta", 1e6},
                   {"max_position_embeddings", 32768}});
  return json;
}

Json deepseek_v3() {
  Json json = base("DeepseekV3ForCausalLM", "deepseek_v3");
  json.update(Json{
      {"vocab_size", 129280},
      {"hidden_size", 7168},
      {"intermediate_size", 18432},
      {"moe_intermediate_size", 2048},
      {"num_hidden_layers", 61},
      {"num_attention_heads", 128},
      {"num_key_value_heads", 128},
      {"n_routed_experts", 256},
      {"n_shared_experts", 1},
      {"num_experts_per_tok", 8},
      {"first_k_dense_replace", 3},
      {"moe_layer_freq", 1},
      {"q_lora_rank", 1536},
      {"kv_lora_rank", 512},
      {"qk_rope_head_dim", 64},
      {"qk_nope_head_dim", 128},
      {"v_head_dim", 128},
      {"max_position_embeddings", 163840},
      {"quantization_config", Json{{"quant_method", "fp8"}}},
      {"rope_scaling", Json{{"type", "yarn"}, {"factor", 40}, {"mscale", 1.0}}},
  });
  return json;
}

void expect_refused(const Json& json, ErrorCode code, const std::string& part) {
  try {
    parse(json);
    ADD_FAILURE() << "accepted, expected an error with '" << part << "'";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.message();
    EXPECT_NE(error.message().find(part), std::string::npos) << error.message();
  }
}

TEST(PlannedModels, Mixtral) {
  const ModelConfig config = parse(mixtral());
  EXPECT_EQ(config.family, ModelFamily::kMixtral);
  EXPECT_EQ(total(config), 46702792704);
  EXPECT_EQ(active(config), 12879925248);
  expect_planned_only(config, "mixture of experts");
  expect_planned_only(config, "mixtral");
}

TEST(PlannedModels, DeepSeekV3WithFp8WeightsAndYarn) {
  const ModelConfig config = parse(deepseek_v3());
  EXPECT_EQ(total(config), 671026419200);
  EXPECT_EQ(active(config), 37552282624);
  EXPECT_EQ(kv_bytes_per_token(config, 2), 70272);
  EXPECT_EQ(config.rope.type, RopeType::kYarn);
  EXPECT_FALSE(config.is_moe_layer(2));
  EXPECT_TRUE(config.is_moe_layer(3));
  expect_planned_only(config, "mixture of experts");
}

// 15,706,484,224 parameters: HF's safetensors index of DeepSeek-V2-Lite (31,412,968,448 bytes).
TEST(PlannedModels, DeepSeekV2LiteHasOneQueryProjection) {
  Json json = deepseek_v3();
  json.update(base("DeepseekV2ForCausalLM", "deepseek_v2"));
  json.update(Json{{"vocab_size", 102400},
                   {"hidden_size", 2048},
                   {"intermediate_size", 10944},
                   {"moe_intermediate_size", 1408},
                   {"num_hidden_layers", 27},
                   {"num_attention_heads", 16},
                   {"num_key_value_heads", 16},
                   {"n_routed_experts", 64},
                   {"n_shared_experts", 2},
                   {"num_experts_per_tok", 6},
                   {"first_k_dense_replace", 1},
                   {"q_lora_rank", nullptr}});
  expect_refused(json, ErrorCode::kNotImplemented, "fp8");
  json.erase("quantization_config");
  EXPECT_EQ(total(parse(json)), 15706484224);
}

Json qwen_moe(const char* architecture, const char* model_type) {
  Json json = base(architecture, model_type);
  json.update(Json{{"vocab_size", 151936},
                   {"hidden_size", 2048},
                   {"intermediate_size", 6144},
                   {"moe_intermediate_size", 768},
                   {"num_hidden_layers", 48},
                   {"num_attention_heads", 32},
                   {"num_key_value_heads", 4},
                   {"head_dim", 128},
                   {"num_experts", 128},
                   {"num_experts_per_tok", 8},
                   {"decoder_sparse_step", 1},
                   {"mlp_only_layers", Json::array()}});
  return json;
}

TEST(PlannedModels, Qwen3Moe) {
  Json json = qwen_moe("Qwen3MoeForCausalLM", "qwen3_moe");
  EXPECT_EQ(total(parse(json)), 30532122624);
  EXPECT_EQ(active(parse(json)), 3353032704);
  json["mlp_only_layers"] = Json::array({0, 1});
  EXPECT_FALSE(parse(json).is_moe_layer(1));
  EXPECT_TRUE(parse(json).is_moe_layer(2));
  json["mlp_only_layers"] = Json::array({3});
  expect_refused(json, ErrorCode::kNotImplemented, "mlp_only_layers");
  json["mlp_only_layers"] = "x";
  expect_refused(json, ErrorCode::kCorruptData, "mlp_only_layers");
}

// 14,315,784,192 parameters: HF's safetensors index of Qwen1.5-MoE-A2.7B (28,631,568,384 bytes).
TEST(PlannedModels, Qwen2MoeHasASharedExpertWithAGate) {
  Json json = qwen_moe("Qwen2MoeForCausalLM", "qwen2_moe");
  json.update(Json{{"intermediate_size", 5632},
                   {"moe_intermediate_size", 1408},
                   {"shared_expert_intermediate_size", 5632},
                   {"num_hidden_layers", 24},
                   {"num_attention_heads", 16},
                   {"num_key_value_heads", 16},
                   {"num_experts", 60},
                   {"num_experts_per_tok", 4}});
  json.erase("head_dim");
  EXPECT_EQ(total(parse(json)), 14315784192);
}

TEST(PlannedModels, Gpt2HasLearnedPositionsAndATiedHead) {
  Json json = base("GPT2LMHeadModel", "gpt2");
  json.update(Json{{"vocab_size", 50257},
                   {"n_embd", 768},
                   {"n_layer", 12},
                   {"n_head", 12},
                   {"n_positions", 1024},
                   {"activation_function", "gelu_new"}});
  const ModelConfig config = parse(json);
  EXPECT_EQ(total(config), 124439808);
  expect_planned_only(config, "LayerNorm");
  json["activation_function"] = "swish";
  expect_refused(json, ErrorCode::kNotImplemented, "swish");
  json["activation_function"] = "gelu";
  json["n_head"] = 7;
  expect_refused(json, ErrorCode::kCorruptData, "7 heads");
  json.erase("n_head");
  expect_refused(json, ErrorCode::kCorruptData, "num_attention_heads");
}

// 559,214,592: bloom-560m. 70,426,624: pythia-70m.
TEST(PlannedModels, BloomAndNeox) {
  Json bloom = base("BloomForCausalLM", "bloom");
  bloom.update(Json{
      {"vocab_size", 250880}, {"n_embed", 1024}, {"n_layer", 24}, {"num_attention_heads", 16}});
  EXPECT_EQ(total(parse(bloom)), 559214592);
  EXPECT_EQ(parse(bloom).position, PositionType::kAlibi);

  Json neox = base("GPTNeoXForCausalLM", "gpt_neox");
  neox.update(Json{{"vocab_size", 50304},
                   {"hidden_size", 512},
                   {"intermediate_size", 2048},
                   {"num_hidden_layers", 6},
                   {"num_attention_heads", 8},
                   {"rotary_pct", 0.25}});
  EXPECT_EQ(total(parse(neox)), 70426624);
}

TEST(PlannedModels, MistralWithoutAWindowAndBaichuan) {
  Json json = base("MistralForCausalLM", "mistral");
  json.update(Json{{"vocab_size", 32000},
                   {"hidden_size", 4096},
                   {"intermediate_size", 14336},
                   {"num_hidden_layers", 32},
                   {"num_attention_heads", 32},
                   {"num_key_value_heads", 8},
                   {"max_position_embeddings", 32768}});
  expect_refused(json, ErrorCode::kNotImplemented, "sliding_window 4096");
  json["sliding_window"] = nullptr;
  EXPECT_EQ(total(parse(json)), 7241732096);
  expect_planned_only(parse(json), "mistral");

  Json baichuan = base("BaichuanForCausalLM", "baichuan");
  baichuan.update(Json{{"vocab_size", 125696},
                       {"hidden_size", 5120},
                       {"intermediate_size", 13696},
                       {"num_hidden_layers", 40},
                       {"num_attention_heads", 40},
                       {"model_max_length", 4096}});
  EXPECT_EQ(total(parse(baichuan)), 13896668160);
  expect_planned_only(parse(baichuan), "positions");
}

TEST(PlannedModels, AbsurdExpertsAndRanksAreRefused) {
  const auto with = [](Json json, const char* key, const Json& value) {
    json[key] = value;
    return json;
  };
  for (const Json& value : Json::array({0, -1, int64_t{1} << 62, "8", 1e30})) {
    expect_refused(with(mixtral(), "num_local_experts", value), ErrorCode::kCorruptData, "experts");
    expect_refused(with(mixtral(), "num_experts_per_tok", value), ErrorCode::kCorruptData,
                   "num_experts_per_tok");
    for (const char* key : {"kv_lora_rank", "qk_rope_head_dim", "v_head_dim"}) {
      expect_refused(with(deepseek_v3(), key, value), ErrorCode::kCorruptData, key);
    }
  }
  expect_refused(with(mixtral(), "num_experts_per_tok", 9), ErrorCode::kCorruptData, "1 to 8");
  expect_refused(with(deepseek_v3(), "first_k_dense_replace", 62), ErrorCode::kCorruptData,
                 "0 to 61");
  expect_refused(with(deepseek_v3(), "n_shared_experts", int64_t{1} << 60), ErrorCode::kCorruptData,
                 "n_shared_experts");
  expect_refused(with(deepseek_v3(), "moe_layer_freq", 2), ErrorCode::kNotImplemented,
                 "moe_layer_freq");
}

// An expert matrix is one spec, whatever their number.
TEST(PlannedModels, TablesStaySmall) {
  const std::vector<ParamSpec> table = make_parameter_table(parse(deepseek_v3()), {});
  EXPECT_LT(table.size(), 61U * 20);
  int64_t experts = 0;
  for (const ParamSpec& spec : table) {
    EXPECT_EQ(spec.name.find("experts.*.") != std::string::npos, spec.experts > 0) << spec.name;
    experts += spec.experts > 0 ? spec.count() : 0;
  }
  EXPECT_EQ(experts, int64_t{58} * 256 * 3 * 7168 * 2048);
}

// Rows of models.csv.
using Row = std::map<std::string, std::string>;

std::vector<Row> read_models() {
  const char* folder = std::getenv("PLAIT_TEST_DATA");
  const CsvTable table =
      read_csv(std::string(folder == nullptr ? "tests/data" : folder) + "/planner/models.csv");
  std::vector<Row> rows;
  for (const CsvRow& cells : table.rows) {
    Row& row = rows.emplace_back();
    for (size_t i = 0; i < table.header.size(); ++i) {
      row[table.header[i]] = cells.fields[i];
    }
  }
  return rows;
}

int64_t number(const Row& row, const char* key) {
  const std::string& text = row.at(key);
  return text.empty() ? 0 : std::stoll(text);
}

ModelConfig config_of(const Row& row) {
  ModelConfig config;
  config.family = ModelFamily::kCustom;
  config.num_layers = number(row, "num_layers");
  config.hidden_size = number(row, "hidden");
  config.num_heads = number(row, "heads");
  config.num_kv_heads = number(row, "kv_heads");
  config.head_dim = number(row, "head_dim");
  config.ffn_hidden_size = number(row, "ffn");
  config.vocab_size = number(row, "vocab");
  config.max_position_embeddings = number(row, "max_position");
  config.tie_word_embeddings = number(row, "tie_embeddings") == 1;
  config.gated_mlp = number(row, "gated_mlp") == 1;
  config.norm = row.at("norm") == "ln" ? NormType::kLayer : NormType::kRms;
  config.position = row.at("pos") == "learned" ? PositionType::kLearned
                    : row.at("pos") == "alibi" ? PositionType::kAlibi
                                               : PositionType::kRope;
  config.qkv_bias = number(row, "qkv_bias") == 1;
  config.o_bias = config.mlp_bias = config.norm == NormType::kLayer;
  config.qk_norm = row.at("model").starts_with("Qwen3");
  config.moe.num_experts = number(row, "n_routed_experts");
  config.moe.experts_per_token = number(row, "experts_per_tok");
  config.moe.ffn_hidden_size = number(row, "moe_ffn");
  config.moe.shared_ffn_hidden_size = number(row, "n_shared_experts") * number(row, "moe_ffn");
  config.moe.first_dense_layers = number(row, "first_dense_layers");
  config.mla.q_lora_rank = number(row, "mla_q_lora");
  config.mla.kv_lora_rank = number(row, "mla_kv_lora");
  config.mla.rope_head_dim = number(row, "mla_rope_dim");
  config.mla.nope_head_dim = number(row, "mla_nope_dim");
  config.mla.v_head_dim = number(row, "mla_v_dim");
  if (config.mla.kv_lora_rank > 0) {
    config.head_dim = config.mla.rope_head_dim + config.mla.nope_head_dim;
    config.moe.router_bias = true;
  }
  return config;
}

TEST(PlannedModels, PublishedTotalsToTheLastParameter) {
  const std::vector<Row> rows = read_models();
  ASSERT_EQ(rows.size(), 23U);
  for (const Row& row : rows) {
    SCOPED_TRACE(row.at("model"));
    const ModelConfig config = config_of(row);
    EXPECT_NO_THROW(check_model_config(config, "models.csv"));
    EXPECT_EQ(total(config), number(row, "params_total"));
    EXPECT_EQ(active(config), number(row, "params_active"));
    EXPECT_EQ(kv_bytes_per_token(config, 2), number(row, "kv_bytes_per_token_bf16"));
  }
}

}  // namespace
}  // namespace plait
