// A golden model written as GGUF gives the weights of its HF directory.
#include <gtest/gtest.h>

#include <cstdlib>

#include "base/error.h"
#include "base/file.h"
#include "base/json_full.h"
#include "checkpoint/gguf_import.h"
#include "checkpoint/gguf_parts.h"
#include "checkpoint/gguf_rig.h"
#include "checkpoint/hf_import.h"
#include "support/test_files.h"

namespace plait {
namespace {

std::string golden(const std::string& name) {
  const char* data = std::getenv("PLAIT_TEST_DATA");
  return std::string(data == nullptr ? "tests/data" : data) + "/goldens/" + name;
}

Shard whole(const ParamSpec& spec) {
  return {.row_begin = 0, .rows = spec.shape[0], .col_begin = 0, .cols = spec.cols()};
}

std::vector<float> read(const ParameterStore::ShardSource& source, const ParamSpec& spec,
                        const Shard& shard) {
  std::vector<float> values(static_cast<size_t>(shard.count()), -7.0F);
  source(spec, shard, values);
  return values;
}

std::string to_bytes(const std::vector<float>& values) {
  return std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
}

// What a converter writes: `llama` files have the rows of q and k interleaved.
GgufBuilder convert(const ModelConfig& config, const ParameterStore::ShardSource& source) {
  const std::string architecture = family_name(config.family);
  const std::string prefix = architecture + ".";
  const auto u32 = [](int64_t value) { return static_cast<uint32_t>(value); };
  GgufBuilder builder;
  builder.text("general.architecture", architecture);
  builder.integer(prefix + "block_count", u32(config.num_layers));
  builder.integer(prefix + "embedding_length", u32(config.hidden_size));
  builder.integer(prefix + "feed_forward_length", u32(config.ffn_hidden_size));
  builder.integer(prefix + "attention.head_count", u32(config.num_heads));
  builder.integer(prefix + "attention.head_count_kv", u32(config.num_kv_heads));
  builder.integer(prefix + "attention.key_length", u32(config.head_dim));
  builder.integer(prefix + "attention.value_length", u32(config.head_dim));
  builder.integer(prefix + "context_length", u32(config.max_position_embeddings));
  builder.number(prefix + "rope.freq_base", static_cast<float>(config.rope.theta));
  builder.number(prefix + "attention.layer_norm_rms_epsilon",
                 static_cast<float>(config.rms_norm_eps));
  for (const ParamSpec& spec : make_parameter_table(config, {})) {
    std::vector<float> values = read(source, spec, whole(spec));
    if (config.family == ModelFamily::kLlama && (spec.name.find("q_proj") != std::string::npos ||
                                                 spec.name.find("k_proj") != std::string::npos)) {
      const std::vector<float> plain = values;
      const int64_t cols = spec.cols();
      for (int64_t row = 0; row < spec.shape[0]; ++row) {
        std::copy_n(plain.begin() + row * cols, cols,
                    values.begin() + gguf_interleaved_row(row, config.head_dim) * cols);
      }
    }
    builder.tensor(gguf_tensor_name(spec.name), spec.shape, 0, to_bytes(values));
  }
  return builder;
}

class GgufImportOf : public testing::TestWithParam<const char*> {};

TEST_P(GgufImportOf, GivesTheWeightsOfTheHfDirectory) {
  const std::string directory = golden(GetParam());
  const ModelConfig config = load_model_config(directory);
  const HfImport expected = open_hf_weights(directory, config);
  const TestFolder folder;
  const std::string path = folder.file("model.gguf");
  write_file_atomic(path, convert(config, expected.source).bytes());
  const GgufImport import = open_gguf_weights(path);
  EXPECT_TRUE(import.unused.empty());
  EXPECT_EQ(import.config.num_layers, config.num_layers);
  EXPECT_EQ(import.config.qk_norm, config.qk_norm);
  EXPECT_EQ(import.config.qkv_bias, config.qkv_bias);
  EXPECT_EQ(import.config.tie_word_embeddings, config.tie_word_embeddings);
  EXPECT_EQ(import.config.rope.theta, config.rope.theta);
  EXPECT_NEAR(import.config.rms_norm_eps, config.rms_norm_eps, 1e-12);
  for (const ParamSpec& spec : make_parameter_table(config, {})) {
    EXPECT_EQ(read(import.source, spec, whole(spec)), read(expected.source, spec, whole(spec)))
        << spec.name;
    // A part, and rows of padding that keep what they held.
    const Shard part{.row_begin = spec.shape[0] / 2,
                     .rows = spec.shape[0] / 2 + 3,
                     .col_begin = spec.cols() / 2,
                     .cols = (spec.cols() + 1) / 2};
    EXPECT_EQ(read(import.source, spec, part), read(expected.source, spec, part)) << spec.name;
  }
}

INSTANTIATE_TEST_SUITE_P(All, GgufImportOf,
                         testing::Values("tiny-llama", "tiny-qwen2", "tiny-qwen3"),
                         [](const auto& each) { return std::string(each.param).substr(5); });

TEST(GgufImport, NamesWhatIsMissingOrMisshaped) {
  const std::string directory = golden("tiny-llama");
  ModelConfig config = load_model_config(directory);
  const HfImport weights = open_hf_weights(directory, config);
  const TestFolder folder;
  const std::string path = folder.file("model.gguf");
  const auto error = [&](const GgufBuilder& builder) -> std::string {
    write_file_atomic(path, builder.bytes());
    try {
      open_gguf_weights(path);
    } catch (const Error& thrown) {
      return thrown.message();
    }
    return "no error";
  };
  --config.num_layers;
  GgufBuilder shorter = convert(config, weights.source);
  EXPECT_EQ(error(shorter), "no error");
  const std::string name = "blk." + std::to_string(config.num_layers) + ".attn_q.weight";
  EXPECT_EQ(error(GgufBuilder(shorter).tensor(name, {1}, 0, "abcd")), "no error");
  EXPECT_EQ(open_gguf_weights(path).unused, std::vector<std::string>{name});
  GgufBuilder missing;
  missing.text("general.architecture", "llama")
      .tensor("token_embd.weight", {8}, 0, std::string(32, '\0'));
  EXPECT_NE(error(missing).find("llama."), std::string::npos);
}

}  // namespace
}  // namespace plait
