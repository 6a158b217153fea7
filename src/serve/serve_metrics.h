// What /metrics shows, in Prometheus' text format, under vLLM's names.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "serve/request.h"

namespace plait {

// Thread-safe.
class ServeMetrics {
 public:
  explicit ServeMetrics(const std::string& model_name);
  ~ServeMetrics();
  ServeMetrics(const ServeMetrics&) = delete;
  ServeMetrics& operator=(const ServeMetrics&) = delete;

  // Of one choice of a request; all in seconds from the arrival of the request, < 0: unknown.
  struct Finished {
    std::string reason;  // "stop", "length", "tool_calls", "abort", "error"
    double e2e_s = -1;
    double queue_s = -1;
    double prefill_s = -1;
    double decode_s = -1;
    int64_t prompt_tokens = 0;
    int64_t generation_tokens = 0;
    int64_t max_tokens = 0;
  };
  void first_token(double seconds);
  // `tokens` arrived together, this long after those before.
  void next_tokens(double seconds, int64_t tokens);
  void finished(const Finished& request);
  void http_answer(const std::string& path, int status);
  void refused();  // an admission rejection: 429 or 503

  struct Snapshot {
    EngineStats engine;
    int64_t connections = 0;
    int64_t active_requests = 0;
  };
  std::string text(const Snapshot& snapshot) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace plait
