// The first request finds a warm engine: what warms up has run before /health turns 200.
#include <atomic>
#include <condition_variable>
#include <mutex>

#include <gtest/gtest.h>

#include "base/json_full.h"
#include "serve/api_rig.h"
#include "serve/test_engine.h"

namespace plait {
namespace {

// Counts the steps that rank 1 hears of; holds it in one of them until the test lets it go.
class StepGate {
 public:
  explicit StepGate(int64_t held_step) : held_step_(held_step) {}

  void pass() {
    std::unique_lock lock(mutex_);
    if (++steps_ == held_step_) {
      changed_.notify_all();
      changed_.wait(lock, [this] { return open_; });
    }
  }
  void await_held() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return steps_ == held_step_; });
  }
  void open() {
    const std::scoped_lock lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }
  int64_t steps() {
    const std::scoped_lock lock(mutex_);
    return steps_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int64_t held_step_;
  int64_t steps_ = 0;
  bool open_ = false;
};

ServingOptions two_ranks(StepGate& gate) {
  ServingOptions options;
  options.layout = parse_layout("tp2");
  options.stall_limit_s = 60;  // a held rank is no failure here
  options.vocab_limit = 256;
  options.prefix_reuse = false;
  options.step_hook = [&gate](int rank) {
    if (rank == 1) {
      gate.pass();
    }
  };
  return options;
}

// Steps of one request on an engine that has nothing else to do.
int64_t steps_of_request(ServingEngine& engine, int32_t token) {
  const int64_t before = engine.stats().steps;
  GenerationRequest request;
  request.prompt.assign(48, token);
  request.sampling = {.temperature = 0, .ignore_eos = true, .max_tokens = 4};
  Answers answers;
  EXPECT_EQ(answers.wait(answers.submit(engine, request)).tokens.size(), 4U);
  return engine.stats().steps - before;
}

TEST(WarmUp, RunsPromptsAndDecodesAndLeavesNothing) {
  StepGate gate(-1);
  const auto engine = start_engine(golden_directory("tiny-qwen3"), two_ranks(gate));
  EXPECT_GE(gate.steps(), 6) << "three prompts, each with a token after it";
  const EngineStats stats = engine->stats();
  EXPECT_TRUE(stats.ready);
  EXPECT_GT(stats.kernel_s, 0);
  EXPECT_EQ(stats.steps + stats.prompt_tokens + stats.generated_tokens + stats.preemptions, 0);
  EXPECT_EQ(stats.prefix_queries + stats.prefix_hits, 0);
  EXPECT_EQ(stats.blocks_free, stats.blocks_total);
  // The first request is cut into steps as the later ones are.
  const int64_t first = steps_of_request(*engine, 5);
  EXPECT_EQ(first, 4) << "the prompt in one chunk";
  EXPECT_EQ(steps_of_request(*engine, 6), first);
}

TEST(WarmUp, HealthIs503UntilItsLastStep) {
  int64_t steps = 0;
  {
    StepGate gate(-1);
    const auto engine = start_engine(golden_directory("tiny-qwen3"), two_ranks(gate));
    steps = gate.steps();
  }
  ASSERT_GT(steps, 0);
  StepGate gate(steps);
  EngineApi server(60);
  EXPECT_EQ(get_http(server.port(), "/health").status, 503) << "no engine yet";
  {
    ServingOptions options = two_ranks(gate);
    options.threads_per_rank = 1;
    ServedModel model = open_served_model(golden_directory("tiny-qwen3"));
    const ServingPlan plan = plan_serving(model, options, host_limits(options.layout));
    ServingEngine engine(std::move(model), options, plan);
    server.set_engine(engine);
    gate.await_held();
    const HttpAnswer health = get_http(server.port(), "/health");
    EXPECT_EQ(health.status, 503);
    EXPECT_NE(health.body.find("warming up"), std::string::npos) << health.body;
    const HttpAnswer refused = post_json(server.port(), "/v1/completions", {{"prompt", "x"}});
    EXPECT_EQ(refused.status, 503);
    EXPECT_EQ(refused.headers.count("retry-after"), 1U);
    gate.open();
    engine.wait_until_ready();
    EXPECT_EQ(get_http(server.port(), "/health").status, 200);
    EXPECT_EQ(
        post_json(server.port(), "/v1/completions", {{"prompt", "x"}, {"max_tokens", 2}}).status,
        200);
    server.stop();
  }
}

}  // namespace
}  // namespace plait
