#include "spec/parameter_counts.h"

#include <gtest/gtest.h>

#include <vector>

#include "spec/parameter_table.h"

namespace plait {
namespace {

ModelConfig small_dense() {
  ModelConfig config;
  config.family = ModelFamily::kCustom;
  config.vocab_size = 1000;
  config.hidden_size = 64;
  config.ffn_hidden_size = 96;
  config.num_layers = 5;
  config.num_heads = 8;
  config.num_kv_heads = 4;
  config.head_dim = 16;
  config.max_position_embeddings = 128;
  return config;
}

ModelConfig small_moe() {
  ModelConfig config = small_dense();
  config.moe = {.num_experts = 8,
                .experts_per_token = 2,
                .ffn_hidden_size = 32,
                .shared_ffn_hidden_size = 48,
                .shared_gate = true,
                .router_bias = true,
                .first_dense_layers = 2};
  return config;
}

ModelConfig small_gpt() {
  ModelConfig config = small_dense();
  config.norm = NormType::kLayer;
  config.position = PositionType::kLearned;
  config.gated_mlp = false;
  config.qkv_bias = config.o_bias = config.mlp_bias = true;
  config.tie_word_embeddings = true;
  config.embedding_norm = true;
  return config;
}

ModelConfig small_mla() {
  ModelConfig config = small_moe();
  config.mla = {.q_lora_rank = 24,
                .kv_lora_rank = 16,
                .rope_head_dim = 8,
                .nope_head_dim = 16,
                .v_head_dim = 16};
  return config;
}

// The sections, as often as the model has them.
int64_t sum(const ModelConfig& config, const ModelCounts& counts) {
  int64_t total = counts.embedding.total() + counts.head.total();
  for (int64_t layer = 0; layer < config.num_layers; ++layer) {
    total += config.is_moe_layer(layer) ? counts.moe_layer.total() : counts.dense_layer.total();
  }
  return total;
}

TEST(ParameterCounts, OneRankHoldsTheTable) {
  for (const ModelConfig& config : {small_dense(), small_moe(), small_gpt(), small_mla()}) {
    EXPECT_EQ(sum(config, count_sections(config, {})),
              count_parameters(make_parameter_table(config, {})));
  }
}

// Every spec of the full table, one by one.
TEST(ParameterCounts, ShardsAreThoseOfTheFullTable) {
  for (const ModelConfig& config : {small_dense(), small_moe(), small_gpt(), small_mla()}) {
    const CountOptions options{.tp = 4, .ep = 2, .etp = 2, .vocab_multiple = 128};
    const TableOptions table{.tp = options.tp, .vocab_multiple = options.vocab_multiple};
    int64_t expected = 0;
    for (const ParamSpec& spec : make_parameter_table(config, table)) {
      expected += spec.experts > 0
                      ? tp_shard(spec, options.etp, 0).count() * spec.experts / options.ep
                      : tp_shard(spec, options.tp, 0).count();
    }
    EXPECT_EQ(sum(config, count_sections(config, options)), expected);
  }
}

TEST(ParameterCounts, SectionsByHand) {
  const ModelCounts dense = count_sections(small_dense(), {.tp = 2, .vocab_multiple = 128});
  EXPECT_EQ(dense.embedding.dense, 512 * 64);  // 1,000 rows padded to 1,024
  EXPECT_EQ(dense.head.dense, 512 * 64 + 64);
  EXPECT_EQ(dense.tied_head.dense, 0);
  EXPECT_EQ(dense.moe_layer.total(), 0);
  EXPECT_EQ(dense.dense_layer.expert, 0);
  EXPECT_EQ(dense.dense_layer.dense,
            (64 * 16 * (8 + 4 + 4) + 64 * 16 * 8 + 3 * 64 * 96) / 2 + 2 * 64);

  const ModelCounts gpt = count_sections(small_gpt(), {});
  EXPECT_EQ(gpt.embedding.dense, 1000 * 64 + 128 * 64 + 2 * 64);
  EXPECT_EQ(gpt.tied_head.dense, 1000 * 64);  // neither positions nor norm
  EXPECT_EQ(gpt.head.dense, 2 * 64);

  const ModelCounts moe = count_sections(small_moe(), {.ep = 4, .etp = 2});
  EXPECT_EQ(moe.moe_layer.expert, 8 / 4 * 3 * 64 * 32 / 2);
  EXPECT_EQ(moe.moe_layer.dense - moe.dense_layer.dense,
            8 * 64 + 8 + 64 + 3 * 64 * 48 - 3 * 64 * 96);
}

TEST(ParameterCounts, AModelOfExpertsAloneHasNoDenseLayer) {
  ModelConfig config = small_moe();
  config.moe.first_dense_layers = 0;
  EXPECT_EQ(count_sections(config, {}).dense_layer.total(), 0);
  EXPECT_GT(count_sections(config, {}).moe_layer.expert, 0);
  config.moe.layer_period = 2;
  EXPECT_GT(count_sections(config, {}).dense_layer.total(), 0);
}

}  // namespace
}  // namespace plait
