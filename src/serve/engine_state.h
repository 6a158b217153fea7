// What the threads that submit requests and the engine's thread share: the inbox, the counters and
// the flags.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "base/error.h"
#include "serve/request.h"
#include "serve/scheduler.h"

namespace plait {

class EngineState {
 public:
  struct Options {
    int64_t max_num_seqs = 0;
    int64_t max_num_queued = 0;
    int64_t max_model_len = 0;
    uint64_t seed = 0;  // of requests that bring none
  };
  explicit EngineState(const Options& options);

  // For any thread; see GenerationService.
  GenerationService::Submission submit(GenerationRequest request, UpdateSink sink);
  void cancel(uint64_t id);
  void drain();
  void stop();
  EngineStats stats() const;
  int64_t unfinished() const;
  // Blocks until set_ready() or fail(); the failure, if it was that.
  std::optional<Error> wait_until_ready();

  // For the engine's thread.
  struct Incoming {
    std::vector<std::unique_ptr<Sequence>> added;
    std::vector<uint64_t> cancelled;
    bool stopping = false;
  };
  // What has come since the last call; waits up to `timeout_s` for anything.
  void take(Incoming& incoming, double timeout_s);
  void set_ready();
  // Counters and gauges after a step (or while idle); its step_age_s is how old they are.
  void publish(const EngineStats& stats);
  void request_finished();
  // No work is accepted from now on; what waits in the inbox is given back.
  std::vector<std::unique_ptr<Sequence>> fail(const Error& error);

 private:
  Options options_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  Incoming inbox_;
  EngineStats stats_;
  std::optional<Error> failure_;
  uint64_t last_id_ = 0;
  int64_t unfinished_ = 0;
  int64_t rejections_ = 0;
  double alive_s_ = 0;      // when the engine last showed life
  double finish_rate_ = 0;  // requests a second, smoothed; for Retry-After
  double last_finish_s_ = 0;
};

}  // namespace plait
