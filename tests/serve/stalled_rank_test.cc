// The whole server on a real engine whose rank thread hangs or fails in the middle of streams.
#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>

#include <gtest/gtest.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/json_full.h"
#include "serve/api_rig.h"
#include "serve/test_engine.h"

namespace plait {
namespace {

// Opens when the test is over, so that a thread that hangs can be joined.
class Gate {
 public:
  void wait() {
    std::unique_lock lock(mutex_);
    opened_.wait(lock, [this] { return open_; });
  }
  void open() {
    const std::scoped_lock lock(mutex_);
    open_ = true;
    opened_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable opened_;
  bool open_ = false;
};

// Answers of a server on tp2 while rank 1 does `fault` in its tenth step after the warm-up.
void expect_unhealthy(const std::function<void()>& fault, Gate& gate) {
  std::atomic<bool> warm = false;
  int steps = 0;
  ServingOptions options;
  options.layout = parse_layout("tp2");
  options.stall_limit_s = 2;
  options.step_hook = [&](int rank) {
    if (rank == 1 && warm && ++steps == 10) {
      fault();
    }
  };
  options.vocab_limit = 256;
  EngineApi server(options.stall_limit_s);
  {
    const auto engine = start_engine(golden_directory("tiny-qwen3"), options);
    warm = true;
    server.set_engine(*engine);
    HttpClient stream(server.port());
    stream.send(
        request_text({"POST",
                      "/v1/completions",
                      R"({"prompt": "x", "stream": true, "max_tokens": 200, "ignore_eos": true})",
                      {}}));
    HttpClient plain(server.port());
    plain.send(request_text({"POST",
                             "/v1/completions",
                             R"({"prompt": "x", "max_tokens": 200, "ignore_eos": true})",
                             {}}));
    const double start_s = now_s();
    const HttpAnswer streamed = stream.receive(20);
    EXPECT_TRUE(streamed.whole);
    const std::vector<Json> chunks = stream_chunks(streamed);
    ASSERT_GE(chunks.size(), 2U);
    EXPECT_TRUE(chunks.back().contains("error")) << chunks.back();
    EXPECT_GE(plain.receive(20).status, 500);
    EXPECT_LT(now_s() - start_s, 10);
    EXPECT_EQ(get_http(server.port(), "/health").status, 503);
    EXPECT_EQ(post_json(server.port(), "/v1/completions", {{"prompt", "x"}}).status, 503);
    gate.open();
    server.stop();
  }
}

TEST(StalledRank, EndsStreamsAndIsUnhealthy) {
  Gate gate;
  expect_unhealthy([&] { gate.wait(); }, gate);
}

TEST(StalledRank, AFailedRankDoesToo) {
  Gate gate;
  expect_unhealthy([] { throw_error(ErrorCode::kIo, "the disk is gone"); }, gate);
}

}  // namespace
}  // namespace plait
