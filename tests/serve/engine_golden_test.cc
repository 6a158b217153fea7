// Greedy tokens of HF transformers through the whole engine, under every kind of layout.
#include <algorithm>

#include <gtest/gtest.h>

#include "base/file.h"
#include "base/json_full.h"
#include "serve/test_engine.h"

namespace plait {
namespace {

struct Golden {
  std::vector<int32_t> prompt, greedy;
};

std::vector<Golden> read_greedy(const std::string& directory) {
  std::vector<Golden> goldens;
  const nlohmann::json json = nlohmann::json::parse(read_file(directory + "/golden.json"));
  for (const nlohmann::json& entry : json.at("greedy")) {
    goldens.push_back({entry.at("prompt"), entry.at("greedy_64")});
  }
  return goldens;
}

struct Setting {
  std::string name;
  std::string layout = "dp1";
  ServingOptions options = {};
};

std::vector<Setting> settings() {
  std::vector<Setting> all;
  for (const char* layout : {"dp1", "tp2", "pp2", "tp2.pp2", "dp2"}) {
    all.push_back({.name = layout, .layout = layout});
  }
  Setting chunks{.name = "chunks"};
  chunks.options.max_num_seqs = 3;
  chunks.options.max_num_batched_tokens = 3;
  all.push_back(chunks);
  Setting eager{.name = "eager"};
  eager.options.eager = true;
  all.push_back(eager);
  return all;
}

class EngineGolden : public testing::TestWithParam<std::string> {};

TEST_P(EngineGolden, GreedyTokensAgreeWithTransformers) {
  const std::string directory = golden_directory(GetParam());
  const std::vector<Golden> goldens = read_greedy(directory);
  for (const Setting& setting : settings()) {
    ServingOptions options = setting.options;
    options.layout = parse_layout(setting.layout);
    const auto engine = start_engine(directory, options);
    Answers answers;
    for (const Golden& golden : goldens) {
      GenerationRequest request;
      request.prompt = golden.prompt;
      request.sampling = {.temperature = 0, .ignore_eos = true, .max_tokens = 64};
      answers.submit(*engine, std::move(request));
    }
    for (size_t i = 0; i < goldens.size(); ++i) {
      const Answers::Answer answer = answers.wait(i);
      EXPECT_EQ(answer.tokens, goldens[i].greedy) << setting.name << " prompt " << i;
      EXPECT_EQ(answer.finish, FinishReason::kLength);
    }
    const EngineStats stats = engine->stats();
    EXPECT_EQ(stats.blocks_free, stats.blocks_total);
    EXPECT_EQ(stats.failure, "");
  }
}

INSTANTIATE_TEST_SUITE_P(Goldens, EngineGolden,
                         testing::Values("tiny-qwen3", "tiny-llama", "tiny-qwen2"),
                         [](const testing::TestParamInfo<std::string>& param) {
                           std::string name = param.param;
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace plait
