#include "spec/model_catalog.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>

#include "base/error.h"
#include "base/file.h"
#include "spec/parameter_table.h"
#include "support/test_files.h"

namespace plait {
namespace {

int64_t total(const std::string& name) {
  return count_parameters(make_parameter_table(find_model(name), {}));
}

TEST(ModelCatalog, EveryModelIsSoundAndHasASource) {
  std::set<std::string> names;
  for (const std::string& name : model_names()) {
    SCOPED_TRACE(name);
    EXPECT_TRUE(names.insert(name).second);
    const ModelConfig config = find_model(name);
    EXPECT_NO_THROW(check_model_config(config, name));
    EXPECT_EQ(model_title(name), name);
    // kCustom is for shapes without a family.
    EXPECT_NE(config.family, ModelFamily::kCustom);
  }
  EXPECT_GE(names.size(), 50U);
  std::string_view text = model_catalog_text();
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    EXPECT_FALSE(line.ends_with(",") || line.ends_with(",0")) << line;
    text.remove_prefix(line.size() + 1);
  }
}

// Bytes of the published bf16 weights, halved, where the models.csv test does not reach.
TEST(ModelCatalog, TotalsOfPublishedWeights) {
  const std::map<std::string, int64_t> totals = {
      {"Qwen3-8B", 8190735360},          {"Qwen2.5-0.5B", 494032768},
      {"Qwen2.5-1.5B", 1543714304},      {"Qwen2.5-3B", 3085938688},
      {"Qwen2.5-14B", 14770033664},      {"Qwen2.5-32B", 32763876352},
      {"Llama-3.2-1B", 1235814400},      {"Llama-3.2-3B", 3212749824},
      {"Mistral-7B", 7241732096},        {"Mixtral-8x7B", 46702792704},
      {"Mixtral-8x22B", 140630071296},   {"Baichuan2-7B", 7505973248},
      {"Baichuan2-13B", 13896668160},    {"Qwen1.5-MoE-A2.7B", 14315784192},
      {"DeepSeek-V2-Lite", 15706484224}, {"DeepSeek-V2", 235741434880},
      {"DeepSeek-V3", 671026419200},     {"BLOOM-7B1", 7069016064},
      {"BLOOM-176B", 176247271424},      {"GPT-2", 124439808},
      {"GPT-2-XL", 1557611200},          {"GPT-3-175B", 174615846912},
      {"Megatron-1T", 1008038758400}};
  for (const auto& [name, count] : totals) {
    EXPECT_EQ(total(name), count) << name;
  }
  EXPECT_EQ(kv_bytes_per_token(find_model("Qwen3-8B"), 2), 147456);
  EXPECT_EQ(total("GPT-18.4B") / 100000000, 184);
  EXPECT_EQ(total("GPT-39.1B") / 100000000, 390);
}

TEST(ModelCatalog, NamesMayBeSpelledFreely) {
  for (const char* name : {"qwen3-8b", "QWEN3_8B", "Qwen/Qwen3-8B", "qwen3 8b"}) {
    EXPECT_EQ(model_title(name), "Qwen3-8B") << name;
    EXPECT_EQ(total(name), 8190735360) << name;
  }
  EXPECT_EQ(model_title("llama2-7b"), "Llama-2-7B");
  for (const auto& [wrong, near] : {std::pair("Qwen3-8", "Qwen3-8B"),
                                    {"lama-2-13b", "Llama-2-13B"},
                                    {"deepseek-v4", "DeepSeek-V"}}) {
    try {
      find_model(wrong);
      ADD_FAILURE() << wrong;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kNotFound);
      EXPECT_NE(error.message().find(std::string("did you mean '") + near), std::string::npos)
          << error.message();
    }
  }
  EXPECT_THROW(find_model(""), Error);
  EXPECT_THROW(find_model("a/"), Error);
}

TEST(ModelCatalog, PathsAreRead) {
  const TestFolder folder;
  write_file_atomic(folder.file("config.json"), R"({"architectures": ["LlamaForCausalLM"],
      "vocab_size": 100, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2,
      "num_attention_heads": 4})");
  for (const std::string& path : {folder.path(), folder.file("config.json")}) {
    EXPECT_EQ(find_model(path).vocab_size, 100);
    EXPECT_EQ(model_title(path), path);
  }
}

}  // namespace
}  // namespace plait
