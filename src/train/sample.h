// Text from a trained model, by the plain training forward: no KV cache, one rank. For a look at a
// checkpoint, not for serving.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace plait {

struct SampleOptions {
  std::string
      source;  // a checkpoint folder, a run directory (newest checkpoint), or an HF directory
  std::vector<int32_t> prompt;
  int64_t num_tokens = 64;
  double temperature = 0.8;  // 0: the most likely token
  int64_t top_k = 40;        // 0: all
  uint64_t seed = 1;
  int threads = 0;  // 0: all cores
};

// Calls `emit` for each new token. The prompt and the new tokens must fit the model's positions.
// Errors: kNotFound, kCorruptData, kInvalidArgument.
void sample_tokens(const SampleOptions& options, const std::function<void(int32_t)>& emit);

}  // namespace plait
