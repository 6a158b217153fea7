// Requests side by side get the answers that they get alone, bit for bit in f32: whatever the
// batch, the chunks, prefix hits, preemptions, threads and layout do.
#include <cmath>

#include <gtest/gtest.h>

#include "base/rng.h"
#include "serve/test_engine.h"

namespace plait {
namespace {

constexpr const char* kModel = "tiny-llama";
constexpr int kRequests = 16;

GenerationRequest make_request(uint64_t index) {
  const auto pick = [index](uint64_t stream, uint64_t most) {
    return random_bits(11, stream, index) % most;
  };
  GenerationRequest request;
  // Some prompts begin alike, for prefix hits.
  const uint64_t family = pick(0, 4);
  const uint64_t length = 1 + pick(1, 70);
  for (uint64_t i = 0; i < length; ++i) {
    const uint64_t stream = i < 40 ? 100 + family : 200 + index;
    request.prompt.push_back(static_cast<int32_t>(random_bits(12, stream, i) % 280));
  }
  request.priority = static_cast<int>(pick(2, 3));
  SamplingParams& sampling = request.sampling;
  sampling.temperature = pick(3, 2) == 0 ? 0.0F : 0.9F;
  sampling.top_p = pick(4, 2) == 0 ? 1.0F : 0.9F;
  sampling.top_k = pick(5, 3) == 0 ? 20 : 0;
  sampling.repetition_penalty = pick(6, 3) == 0 ? 1.1F : 1.0F;
  sampling.seed = index;
  sampling.ignore_eos = true;
  sampling.max_tokens = 5 + static_cast<int64_t>(pick(7, 40));
  sampling.num_logprobs = 2;
  return request;
}

using Results = std::vector<Answers::Answer>;

Results run_mix(const ServingOptions& options, int64_t cache_tokens, bool one_by_one,
                int64_t* preemptions = nullptr) {
  ServingOptions small = options;
  small.kv_cache_gib = cache_gib(golden_directory(kModel), options, cache_tokens);
  small.max_model_len = 160;
  const auto engine = start_engine(golden_directory(kModel), small);
  Answers answers;
  Results results;
  for (uint64_t i = 0; i < kRequests; ++i) {
    const size_t index = answers.submit(*engine, make_request(i));
    if (one_by_one) {
      results.push_back(answers.wait(index));
    }
  }
  for (size_t i = results.size(); i < kRequests; ++i) {
    results.push_back(answers.wait(i));
  }
  const EngineStats stats = engine->stats();
  EXPECT_EQ(stats.blocks_free, stats.blocks_total);
  EXPECT_EQ(stats.running + stats.waiting, 0);
  if (preemptions != nullptr) {
    *preemptions += stats.preemptions;
  }
  if (!options.prefix_reuse) {
    EXPECT_EQ(stats.prefix_hits, 0);
  }
  return results;
}

void expect_equal(const Results& a, const Results& b, const std::string& what) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i].tokens, b[i].tokens) << what << ", request " << i;
    EXPECT_EQ(a[i].finish, b[i].finish) << what << ", request " << i;
    ASSERT_EQ(a[i].details.size(), b[i].details.size());
    for (size_t t = 0; t < a[i].details.size(); ++t) {
      const GeneratedToken& x = a[i].details[t];
      const GeneratedToken& y = b[i].details[t];
      ASSERT_EQ(x.logprob, y.logprob) << what << ", request " << i << " token " << t;
      ASSERT_EQ(x.top.size(), 2U);
      ASSERT_EQ(x.top[1].logprob, y.top[1].logprob);
    }
  }
}

TEST(EngineMix, EveryRequestGetsItsSoloAnswer) {
  ServingOptions alone;
  alone.prefix_reuse = false;
  alone.max_num_seqs = 1;
  const Results solo = run_mix(alone, 4000, true);
  for (const Answers::Answer& answer : solo) {
    EXPECT_EQ(answer.finish, FinishReason::kLength);
  }
  ServingOptions options;
  options.max_num_seqs = 8;
  expect_equal(run_mix(options, 4000, false), solo, "batch");
  options.max_num_batched_tokens = 11;
  options.threads_per_rank = 2;
  expect_equal(run_mix(options, 4000, false), solo, "small chunks, two threads");
  int64_t preemptions = 0;
  expect_equal(run_mix(options, 176, false, &preemptions), solo, "preemption");
  options.layout = parse_layout("pp2");
  options.threads_per_rank = 1;
  expect_equal(run_mix(options, 176, false, &preemptions), solo, "pipeline and preemption");
  EXPECT_GT(preemptions, 0);
}

TEST(EngineMix, TensorParallelTokensAreEqualWhereTheBestIsClear) {
  ServingOptions options;
  options.max_num_seqs = 6;
  const Results one = run_mix(options, 4000, false);
  options.layout = parse_layout("tp2");
  const Results two = run_mix(options, 4000, false);
  for (size_t i = 0; i < one.size(); ++i) {
    for (size_t t = 0; t < one[i].tokens.size(); ++t) {
      const std::vector<TokenLogprob>& top = one[i].details[t].top;
      if (top[0].logprob - top[1].logprob < 1e-3) {
        break;  // from here on the texts may differ
      }
      ASSERT_EQ(one[i].details[t].top[0].token, two[i].details[t].top[0].token);
      ASSERT_NEAR(one[i].details[t].logprob, two[i].details[t].logprob, 1e-3);
      if (one[i].tokens[t] != two[i].tokens[t]) {
        break;  // a draw at the border of two tokens
      }
    }
  }
}

}  // namespace
}  // namespace plait
