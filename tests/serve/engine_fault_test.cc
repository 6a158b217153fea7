// A rank that fails, stalls or cannot load: requests end with an error that names it.
#include <atomic>
#include <chrono>
#include <latch>
#include <thread>

#include <gtest/gtest.h>

#include "base/clock.h"
#include "base/error.h"
#include "serve/test_engine.h"

namespace plait {
namespace {

GenerationRequest make_request() {
  GenerationRequest request;
  request.prompt = {5, 6, 7};
  request.sampling = {.temperature = 0, .ignore_eos = true, .max_tokens = 200};
  return request;
}

// Runs two requests; rank 1 does `fault` in the fifth step of them, when both have been submitted
// (how many steps warm up depends on the machine). Checks what the client hears.
void expect_failure(const std::function<void()>& fault, const std::vector<std::string>& parts) {
  std::atomic<bool> warm = false;
  std::latch submitted(1);
  int steps = 0;
  ServingOptions options;
  options.layout = parse_layout("tp2");
  options.stall_limit_s = 1.5;
  options.step_hook = [&](int rank) {
    if (rank == 1 && warm && ++steps == 5) {
      submitted.wait();
      fault();
    }
  };
  const auto engine = start_engine(golden_directory("tiny-qwen3"), options);
  warm = true;
  std::this_thread::sleep_for(std::chrono::milliseconds(1800));  // idle is no failure
  EXPECT_EQ(engine->stats().failure, "");
  Answers answers;
  const double start_s = now_s();
  const size_t first = answers.submit(*engine, make_request());
  const size_t second = answers.submit(*engine, make_request());
  submitted.count_down();
  for (const size_t index : {first, second}) {
    const Answers::Answer answer = answers.wait(index);
    EXPECT_EQ(answer.finish, FinishReason::kError);
    for (const std::string& part : parts) {
      EXPECT_NE(answer.error.find(part), std::string::npos) << answer.error;
    }
  }
  EXPECT_LT(now_s() - start_s, 10);
  EXPECT_NE(engine->stats().failure, "");
  EXPECT_EQ(engine->submit(make_request(), [](const RequestUpdate&) {}).admission,
            Admission::kUnavailable);
}

TEST(EngineFault, ARankThatFailsIsNamed) {
  expect_failure([] { throw_error(ErrorCode::kIo, "the disk is gone"); },
                 {"rank 1", "the disk is gone"});
}

TEST(EngineFault, ARankThatStallsIsNamed) {
  expect_failure([] { std::this_thread::sleep_for(std::chrono::seconds(3)); }, {"rank 1"});
}

TEST(EngineFault, AModelThatCannotBeReadIsAnErrorOfTheStart) {
  ServedModel model = open_served_model(golden_directory("tiny-qwen3"));
  model.source = [](const ParamSpec& spec, const Shard&, std::span<float>) {
    throw_error(ErrorCode::kCorruptData, "tensor '{}' is damaged", spec.name);
  };
  const ServingOptions options;
  const ServingPlan plan = plan_serving(model, options, host_limits(options.layout));
  ServingEngine engine(std::move(model), options, plan);
  try {
    engine.wait_until_ready();
    ADD_FAILURE() << "it started";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kCorruptData);
    EXPECT_NE(error.message().find("embed_tokens"), std::string::npos) << error.message();
  }
  EXPECT_FALSE(engine.stats().ready);
  EXPECT_EQ(engine.submit(make_request(), [](const RequestUpdate&) {}).admission,
            Admission::kUnavailable);
}

}  // namespace
}  // namespace plait
