// An engine without a model: says what it is told to, one token a step and request.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "serve/request.h"

namespace plait {

class FakeService final : public GenerationService {
 public:
  explicit FakeService(const EngineLimits& limits);
  ~FakeService() override;

  // What a request answers; without one: "abcdef..." for ever. An end token is added.
  void set_reply(std::function<std::vector<int32_t>(const GenerationRequest&)> reply);
  void set_step_s(double seconds);
  void pause(bool paused);
  void set_admission(Admission admission);
  void set_most_running(int64_t most);  // then the queue is full
  void set_stats(const std::function<void(EngineStats&)>& change);
  // Ends every request with this.
  void end_all(FinishReason reason, const std::string& error);

  std::vector<GenerationRequest> requests() const;  // all that were accepted
  int64_t num_running() const;
  int64_t num_cancelled() const;
  // False if it does not come to that within 5 s.
  bool await_running(int64_t count) const;

  Submission submit(GenerationRequest request, UpdateSink sink) override;
  void cancel(uint64_t id) override;
  void drain() override;
  EngineStats stats() const override;
  const EngineLimits& limits() const override { return limits_; }

 private:
  struct Running {
    GenerationRequest request;
    UpdateSink sink;
    std::vector<int32_t> reply;
    bool endless = false;
    size_t next = 0;
    int64_t given = 0;
  };
  void run();
  void step();
  RequestUpdate next_update(Running& running) const;

  EngineLimits limits_;
  mutable std::mutex mutex_;
  std::function<std::vector<int32_t>(const GenerationRequest&)> reply_;
  double step_s_ = 0.001;
  bool paused_ = false;
  bool stop_ = false;
  Admission admission_ = Admission::kAccepted;
  int64_t most_running_ = 1 << 20;
  EngineStats stats_;
  std::map<uint64_t, Running> running_;
  std::vector<GenerationRequest> accepted_;
  int64_t num_cancelled_ = 0;
  uint64_t next_id_ = 0;
  std::thread thread_;
};

}  // namespace plait
