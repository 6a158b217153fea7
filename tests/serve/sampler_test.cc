#include "serve/sampler.h"

#include <cmath>
#include <limits>
#include <map>

#include <gtest/gtest.h>

#include "base/rng.h"
#include "serve/sampling_check.h"

namespace plait {
namespace {

std::vector<float> random_logits(int64_t count, uint64_t stream) {
  std::vector<float> logits;
  for (int64_t i = 0; i < count; ++i) {
    logits.push_back(3 * random_normal(5, stream, static_cast<uint64_t>(i)));
  }
  return logits;
}

int32_t sample(std::vector<float> logits, const SamplingParams& params,
               const SamplingContext& context = {}) {
  Sampler sampler;
  return sampler.sample(logits, params, context).token;
}

// How often each token comes, over seeds.
std::map<int32_t, int> draw(const std::vector<float>& logits, const SamplingParams& params,
                            int times) {
  Sampler sampler;
  std::map<int32_t, int> counts;
  for (int i = 0; i < times; ++i) {
    std::vector<float> copy = logits;
    ++counts[sampler.sample(copy, params, {.seed = static_cast<uint64_t>(i)}).token];
  }
  return counts;
}

TEST(Sampler, GreedyTakesTheFirstOfTheBest) {
  std::vector<float> logits = random_logits(100, 1);
  logits[40] = logits[77] = 50;
  EXPECT_EQ(sample(logits, {.temperature = 0}), 40);
  logits[3] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(sample(logits, {.temperature = 0}), 40);
  const std::vector<float> nothing(5, std::numeric_limits<float>::quiet_NaN());
  EXPECT_EQ(sample(logits, {.temperature = 1e-6F}), 40);
  EXPECT_EQ(sample(logits, {.temperature = std::numeric_limits<float>::denorm_min()}), 40);
  EXPECT_EQ(sample(nothing, {.temperature = 0}), 0);
  EXPECT_EQ(sample(nothing, {.temperature = 1}), 0);
}

TEST(Sampler, DrawsWithTheProbabilitiesOfTheSoftmax) {
  const std::vector<float> logits = {0, 1, 2, -1};
  double total = 0;
  for (const float logit : logits) {
    total += std::exp(logit / 0.7);
  }
  constexpr int kTimes = 20000;
  for (const SamplingParams& params :
       {SamplingParams{.temperature = 0.7F}, SamplingParams{.temperature = 0.7F, .top_k = 3},
        SamplingParams{.temperature = 0.7F, .top_p = 0.97F}}) {
    std::map<int32_t, int> counts = draw(logits, params, kTimes);
    const bool all = params.top_k == 0 && params.top_p == 1;
    EXPECT_EQ(counts.contains(3), all);
    const double kept = all ? total : total - std::exp(-1 / 0.7);
    for (const int32_t token : {0, 1, 2}) {
      const double expected = std::exp(logits[static_cast<size_t>(token)] / 0.7) / kept;
      EXPECT_NEAR(counts[token] / double{kTimes}, expected, 0.015) << token;
    }
  }
}

TEST(Sampler, TopPMinPAndTopKKeepWhatTheySay) {
  const std::vector<float> logits = {std::log(0.5F), std::log(0.3F), std::log(0.15F),
                                     std::log(0.05F)};
  EXPECT_EQ(draw(logits, {.top_p = 0.79F}, 500).size(), 2U);
  EXPECT_EQ(draw(logits, {.top_p = 0.81F}, 500).size(), 3U);
  EXPECT_EQ(draw(logits, {.top_p = 0.01F}, 500).size(), 1U);
  EXPECT_EQ(draw(logits, {.min_p = 0.2F}, 500).size(), 3U);
  EXPECT_EQ(draw(logits, {.min_p = 1}, 500).size(), 1U);
  EXPECT_EQ(draw(logits, {.top_k = 2}, 500).size(), 2U);
  EXPECT_EQ(draw(logits, {.top_p = 0.5F, .top_k = 3}, 500).size(), 1U);
}

TEST(Sampler, ALongTailIsInTheNucleus) {
  // One likely token, and 100,000 that have half of the probability together.
  std::vector<float> logits(100001, 0);
  logits[0] = std::log(100000.0F);
  const std::map<int32_t, int> counts = draw(logits, {.top_p = 0.9F}, 40);
  EXPECT_GT(counts.size(), 5U);
}

TEST(Sampler, ADrawDependsOnSeedAndPositionAlone) {
  const std::vector<float> logits = random_logits(1000, 2);
  const std::vector<int32_t> tokens = {1, 2, 3};
  const SamplingParams params;
  const int32_t first = sample(logits, params, {.generated = tokens, .seed = 9});
  EXPECT_EQ(sample(logits, params, {.generated = tokens, .seed = 9}), first);
  int others = 0;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    others += sample(logits, params, {.generated = tokens, .seed = seed}) != first ? 1 : 0;
  }
  EXPECT_GT(others, 10);
}

TEST(Sampler, PenaltiesAndBias) {
  const std::vector<float> logits = {2, 1.9F, -1};
  const std::vector<int32_t> zero = {0, 0};
  SamplingParams params{.temperature = 0};
  params.repetition_penalty = 1.1F;
  EXPECT_EQ(sample(logits, params, {.prompt = zero}), 1);
  EXPECT_EQ(sample(logits, params, {.generated = zero}), 1);
  EXPECT_EQ(sample(logits, params, {}), 0);
  params = {.temperature = 0, .presence_penalty = 0.2F};
  EXPECT_EQ(sample(logits, params, {.prompt = zero}), 0);
  EXPECT_EQ(sample(logits, params, {.generated = zero}), 1);
  params = {.temperature = 0, .frequency_penalty = 0.06F};
  EXPECT_EQ(sample(logits, params, {.generated = zero}), 1);
  EXPECT_EQ(sample(logits, params, {.generated = std::span(zero).first(1)}), 0);
  params = {.temperature = 0};
  params.logit_bias = {{2, 100}};
  EXPECT_EQ(sample(logits, params), 2);
}

TEST(Sampler, NoStopTokenBeforeMinTokens) {
  const std::vector<float> logits = {5, 1, 0};
  const std::vector<int32_t> stop = {0};
  const std::vector<int32_t> generated = {1, 1};
  const SamplingParams params{.temperature = 0, .min_tokens = 2};
  EXPECT_EQ(sample(logits, params, {.stop_tokens = stop}), 1);
  EXPECT_EQ(sample(logits, params, {.generated = generated, .stop_tokens = stop}), 0);
}

TEST(Sampler, LogprobsAreOfTheModelsOwnLogits) {
  std::vector<float> logits = {1, 3, 2};
  Sampler sampler;
  SamplingParams params{.temperature = 0, .num_logprobs = 2};
  params.logit_bias = {{0, 50}};
  const GeneratedToken token = sampler.sample(logits, params, {});
  const double total = std::log(std::exp(1.0) + std::exp(3.0) + std::exp(2.0));
  EXPECT_EQ(token.token, 0);
  EXPECT_NEAR(token.logprob, 1 - total, 1e-5);
  ASSERT_EQ(token.top.size(), 2U);
  EXPECT_EQ(token.top[0].token, 1);
  EXPECT_NEAR(token.top[0].logprob, 3 - total, 1e-5);
  EXPECT_EQ(token.top[1].token, 2);
}

TEST(SamplingCheck, NamesTheField) {
  const EngineLimits limits{.max_model_len = 100, .vocab_size = 10, .eos_token_ids = {}};
  EXPECT_FALSE(check_sampling({}, limits).has_value());
  const auto field = [&](const SamplingParams& params) {
    const auto problem = check_sampling(params, limits);
    return problem ? problem->field : "";
  };
  EXPECT_EQ(field({.temperature = -1}), "temperature");
  EXPECT_EQ(field({.temperature = 999999}), "temperature");
  EXPECT_EQ(field({.temperature = std::nanf("")}), "temperature");
  EXPECT_EQ(field({.top_p = -1}), "top_p");
  EXPECT_EQ(field({.top_p = 0}), "top_p");
  EXPECT_EQ(field({.min_p = 1.5F}), "min_p");
  EXPECT_EQ(field({.top_k = -2}), "top_k");
  EXPECT_EQ(field({.repetition_penalty = 0}), "repetition_penalty");
  EXPECT_EQ(field({.presence_penalty = 3}), "presence_penalty");
  EXPECT_EQ(field({.max_tokens = 0}), "max_tokens");
  EXPECT_EQ(field({.min_tokens = 17}), "min_tokens");
  EXPECT_EQ(field({.num_logprobs = 1000000000}), "logprobs");
  EXPECT_EQ(field({.logit_bias = {{10, 1}}}), "logit_bias");
  EXPECT_EQ(field({.logit_bias = {{1, 101}}}), "logit_bias");
  EXPECT_EQ(field({.stop_token_ids = {-1}}), "stop_token_ids");
}

}  // namespace
}  // namespace plait
