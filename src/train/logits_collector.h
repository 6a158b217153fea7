// Brings chosen rows of the logits, whole over the vocabulary, to every rank: for verification and
// for sampling from a training engine.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "train/engine.h"

namespace plait {

class LogitsCollector {
 public:
  // Hooks into the engine's model until destroyed. The engine must outlive it.
  explicit LogitsCollector(Engine& engine);
  ~LogitsCollector();
  LogitsCollector(const LogitsCollector&) = delete;
  LogitsCollector& operator=(const LogitsCollector&) = delete;

  // Asks for the logits at `position` of `row` of the last run's global batch.
  void request(int64_t row, int64_t position);

  // f32 logits [vocab_size] in the order of the requests, which are forgotten. Collective over the
  // world: every rank must have asked for the same.
  std::vector<std::vector<float>> gather();

 private:
  struct Request {
    int64_t row = 0;
    int64_t position = 0;
  };
  Engine& engine_;
  std::map<int, std::vector<float>> logits_;  // by micro-batch: f32 [T, padded V / tp]
  std::vector<Request> requests_;
};

}  // namespace plait
