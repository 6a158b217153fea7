// Command lines of vLLM and vllm-ascend.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "plan/readers/flag_set.h"
#include "plan/readers/launch.h"

namespace plait {

struct ServeCommand {
  explicit ServeCommand(FlagSet given) : flags(std::move(given)) {}

  std::string model;  // name or path as given
  int64_t tp = 1, pp = 1, dp = 1;
  bool expert_parallel = false;
  int64_t max_model_len = 0;  // 0: the model's
  int64_t max_num_seqs = 256;
  int64_t max_num_batched_tokens = 0;  // 0: vLLM chooses
  double gpu_memory_utilization = 0.9;
  std::string dtype = "auto";
  std::string quantization;
  std::string kv_cache_dtype = "auto";
  bool eager = false;
  bool chunked_prefill_off = false;
  bool ascend = false;
  FlagSet flags;

  double weight_bytes() const;  // of one parameter
  double kv_bytes() const;      // of one element of the cache
};

// Errors: kInvalidArgument naming file and line.
ServeCommand read_vllm(const Launch& launch, const std::string& origin);

}  // namespace plait
