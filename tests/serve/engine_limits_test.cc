// Cancels, deadlines, bounds and bad starts of the engine.
#include <chrono>
#include <thread>

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/rng.h"
#include "serve/test_engine.h"

namespace plait {
namespace {

const std::string& directory() {
  static const std::string path = golden_directory("tiny-qwen2");
  return path;
}

GenerationRequest make_request(int64_t prompt, int64_t output) {
  GenerationRequest request;
  for (int64_t i = 0; i < prompt; ++i) {
    request.prompt.push_back(static_cast<int32_t>(5 + i % 200));
  }
  request.sampling = {.temperature = 0, .ignore_eos = true, .max_tokens = output};
  return request;
}

// The gauge follows within a step.
void expect_all_free(ServingEngine& engine) {
  for (int i = 0; i < 400; ++i) {
    const EngineStats stats = engine.stats();
    if (stats.blocks_free == stats.blocks_total && stats.running + stats.waiting == 0) {
      return;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  ADD_FAILURE() << "blocks are still held";
}

TEST(EngineLimits, CancelFreesBlocksWhileOthersGoOn) {
  const auto engine = start_engine(directory(), {});
  Answers answers;
  const size_t kept = answers.submit(*engine, make_request(3, 60));
  const size_t dropped = answers.submit(*engine, make_request(20, 200));
  answers.wait_tokens(dropped, 2);
  engine->cancel(answers.id(dropped));
  engine->cancel(123456);  // unknown
  EXPECT_EQ(answers.wait(dropped).finish, FinishReason::kCancelled);
  EXPECT_EQ(answers.wait(kept).finish, FinishReason::kLength);
  EXPECT_EQ(answers.wait(kept).tokens.size(), 60U);
  engine->cancel(answers.id(kept));  // finished
  expect_all_free(*engine);
}

TEST(EngineLimits, HugeMaxTokensEndsAtTheModelsLength) {
  ServingOptions options;
  options.max_model_len = 64;
  const auto engine = start_engine(directory(), options);
  EXPECT_EQ(engine->limits().max_model_len, 64);
  Answers answers;
  const size_t index =
      answers.submit(*engine, make_request(10, std::numeric_limits<int64_t>::max()));
  const size_t edge = answers.submit(*engine, make_request(63, 100));
  EXPECT_EQ(answers.wait(index).finish, FinishReason::kLength);
  EXPECT_EQ(answers.wait(index).tokens.size(), 54U);
  EXPECT_EQ(answers.wait(edge).tokens.size(), 1U);
}

TEST(EngineLimits, StopTokensAndMinTokens) {
  const auto engine = start_engine(directory(), {});
  Answers answers;
  const size_t plain = answers.submit(*engine, make_request(4, 12));
  const std::vector<int32_t> tokens = answers.wait(plain).tokens;
  GenerationRequest request = make_request(4, 12);
  request.sampling.stop_token_ids = {tokens[3]};
  const size_t stopped = answers.submit(*engine, request);
  const Answers::Answer answer = answers.wait(stopped);
  EXPECT_EQ(answer.finish, FinishReason::kStop);
  EXPECT_EQ(answer.tokens.back(), tokens[3]);
  EXPECT_LE(answer.tokens.size(), 4U);
  request.sampling.min_tokens = 12;
  const size_t held = answers.submit(*engine, request);
  EXPECT_EQ(answers.wait(held).tokens.size(), 12U);
  for (const int32_t token : answers.wait(held).tokens) {
    EXPECT_NE(token, tokens[3]);
  }
}

TEST(EngineLimits, BoundedQueueDeadlinesAndDrain) {
  ServingOptions options;
  options.max_num_seqs = 1;
  options.max_num_queued = 2;
  const auto engine = start_engine(directory(), options);
  Answers answers;
  GenerationRequest late = make_request(4, 250);
  late.deadline_s = 0.3;
  GenerationRequest impatient = make_request(4, 3);
  impatient.queue_limit_s = 0.05;
  // The first must not be through before the queue is full.
  answers.pause(true);
  const size_t first = answers.submit(*engine, late);
  answers.wait_tokens(first, 1);
  const size_t second = answers.submit(*engine, impatient);
  const size_t third = answers.submit(*engine, make_request(4, 3));
  const GenerationService::Submission full =
      engine->submit(make_request(4, 3), [](const RequestUpdate&) {});
  EXPECT_EQ(full.admission, Admission::kQueueFull);
  EXPECT_GT(full.retry_after_s, 0);
  EXPECT_EQ(engine->stats().rejections, 1);
  answers.pause(false);
  // The deadline may pass before or after the request is through, the order of the others is fixed.
  const FinishReason end = answers.wait(first).finish;
  EXPECT_TRUE(end == FinishReason::kDeadline || end == FinishReason::kLength);
  const FinishReason waited = answers.wait(second).finish;
  EXPECT_TRUE(waited == FinishReason::kDeadline || waited == FinishReason::kLength);
  EXPECT_EQ(answers.wait(third).finish, FinishReason::kLength);
  const size_t running = answers.submit(*engine, make_request(4, 50));
  engine->drain();
  EXPECT_EQ(engine->submit(make_request(4, 3), [](const RequestUpdate&) {}).admission,
            Admission::kUnavailable);
  EXPECT_EQ(answers.wait(running).finish, FinishReason::kLength);
  expect_all_free(*engine);
}

TEST(EngineLimits, AnEngineThatEndsAnswersItsRequests) {
  Answers answers;
  size_t index = 0;
  {
    const auto engine = start_engine(directory(), {});
    index = answers.submit(*engine, make_request(4, 250));
  }
  const FinishReason finish = answers.wait(index).finish;
  EXPECT_TRUE(finish == FinishReason::kError || finish == FinishReason::kLength);
}

TEST(EngineLimits, RandomCancelsLeaveNothingBehind) {
  ServingOptions options;
  options.max_num_seqs = 6;
  options.kv_cache_gib = cache_gib(directory(), options, 512);
  options.max_num_queued = 1000;
  const auto engine = start_engine(directory(), options);
  Answers answers;
  std::vector<size_t> indices;
  for (uint64_t i = 0; i < 150; ++i) {
    GenerationRequest request = make_request(1 + static_cast<int64_t>(random_bits(1, 1, i) % 60),
                                             1 + static_cast<int64_t>(random_bits(1, 2, i) % 40));
    request.priority = static_cast<int>(random_bits(1, 3, i) % 3);
    indices.push_back(answers.submit(*engine, std::move(request)));
    if (random_bits(1, 4, i) % 3 == 0) {
      engine->cancel(answers.id(indices[random_bits(1, 5, i) % indices.size()]));
    }
  }
  for (const size_t index : indices) {
    const FinishReason finish = answers.wait(index).finish;
    EXPECT_TRUE(finish == FinishReason::kCancelled || finish == FinishReason::kLength);
  }
  expect_all_free(*engine);
}

TEST(EngineLimits, CancelledRequestsLeaveTheirPrefixBehind) {
  const auto engine = start_engine(directory(), {});
  Answers answers;
  for (int i = 0; i < 3; ++i) {
    const size_t index = answers.submit(*engine, make_request(64, 150));
    answers.wait_tokens(index, 2);
    engine->cancel(answers.id(index));
    answers.wait(index);
  }
  const size_t again = answers.submit(*engine, make_request(64, 2));
  EXPECT_GE(answers.wait(again).cached, 64 - kKvBlockTokens);
  expect_all_free(*engine);
}

TEST(EngineLimits, AStreamGetsATokenInEveryStepOfALongPrompt) {
  ServingOptions options;
  options.max_num_seqs = 4;
  options.max_num_batched_tokens = 8;
  const auto engine = start_engine(directory(), options);
  Answers answers;
  answers.pause(true);
  const size_t stream = answers.submit(*engine, make_request(1, 120));
  answers.wait_tokens(stream, 1);
  GenerationRequest longest = make_request(100, 1);
  longest.prompt.front() = 9;  // no prefix hit
  const size_t prompt = answers.submit(*engine, longest);
  answers.pause(false);
  EXPECT_EQ(answers.wait(prompt).finish, FinishReason::kLength);
  // At most 7 rows of the prompt a step.
  EXPECT_GE(answers.tokens_before(prompt, stream), 100 / 7);
  EXPECT_EQ(answers.wait(stream).tokens.size(), 120U);
}

TEST(EngineLimits, RefusesWhatWouldStopIt) {
  ServingOptions options;
  options.max_model_len = 64;
  const auto engine = start_engine(directory(), options);
  const auto sink = [](const RequestUpdate&) {};
  EXPECT_THROW(engine->submit(make_request(4, 3), nullptr), Error);
  EXPECT_THROW(engine->submit(make_request(0, 3), sink), Error);
  EXPECT_THROW(engine->submit(make_request(4, 0), sink), Error);
  EXPECT_THROW(engine->submit(make_request(64, 3), sink), Error);
  GenerationRequest unknown = make_request(4, 3);
  unknown.prompt.back() = 304;
  EXPECT_THROW(engine->submit(unknown, sink), Error);
  Answers answers;
  EXPECT_EQ(answers.wait(answers.submit(*engine, make_request(4, 3))).tokens.size(), 3U);
}

TEST(EngineLimits, ALatencyTargetMovesTheConcurrency) {
  ServingOptions options;
  options.max_num_seqs = 8;
  for (const double target_ms : {1e6, 1e-6}) {
    options.target_tpot_ms = target_ms;
    const auto engine = start_engine(directory(), options);
    EXPECT_EQ(engine->stats().max_concurrency, 2);
    Answers answers;
    bool moved = false;
    // It looks once a second, while more requests are there than may run.
    for (int round = 0; round < 400 && !moved; ++round) {
      std::vector<size_t> indices;
      indices.reserve(12);
      for (int i = 0; i < 12; ++i) {
        indices.push_back(answers.submit(*engine, make_request(3, 150)));
      }
      for (const size_t index : indices) {
        EXPECT_EQ(answers.wait(index).finish, FinishReason::kLength);
      }
      const int64_t limit = engine->stats().max_concurrency;
      moved = target_ms > 1 ? limit > 2 : limit < 2;
    }
    EXPECT_TRUE(moved) << target_ms;
  }
}

class BadStart : public testing::Test {
 protected:
  void expect_refused(const ServingOptions& options, const HostLimits& host,
                      const std::vector<std::string>& parts) {
    const ServedModel model = open_served_model(directory());
    try {
      plan_serving(model, options, host);
      ADD_FAILURE() << "not refused";
    } catch (const Error& error) {
      EXPECT_EQ(exit_code(error.code()), 2) << error.what();
      for (const std::string& part : parts) {
        EXPECT_NE(error.message().find(part), std::string::npos) << error.message();
      }
    }
  }
};

TEST_F(BadStart, SaysWhatDoesNotFit) {
  const HostLimits host{.free_bytes = int64_t{1} << 30, .local_ranks = 1};
  expect_refused({}, {.free_bytes = 100000, .local_ranks = 1}, {"does not fit", "weights"});
  ServingOptions options;
  options.kv_cache_gib = 5;
  expect_refused(options, host, {"does not fit", "cache"});
  options = {};
  options.max_model_len = 1000000;
  expect_refused(options, host, {"max-model-len", "positions"});
  options = {};
  options.kv_cache_gib = 1e-4;
  options.max_model_len = 256;
  expect_refused(options, host, {"one request of 256 tokens"});
  options = {};
  options.layout = parse_layout("tp3");
  expect_refused(options, host, {"tp"});
  options.layout = parse_layout("tp2.sp");
  expect_refused(options, host, {"tp and pp"});
  options = {};
  options.max_num_batched_tokens = 4;
  expect_refused(options, host, {"max-num-batched-tokens"});
}

TEST_F(BadStart, MissingDirectories) {
  EXPECT_THROW(open_served_model("/no/such/model"), Error);
  for (const char* path : {"/", "/dev/null", "/dev/zero", "/etc/passwd"}) {
    try {
      open_served_model(path);
      ADD_FAILURE() << path;
    } catch (const Error& error) {
      EXPECT_EQ(exit_code(error.code()), 2) << error.message();
    }
  }
  EXPECT_THROW(open_served_model(directory() + "/config.json"), Error);
}

}  // namespace
}  // namespace plait
