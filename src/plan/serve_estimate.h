// What serving a model costs: memory, latency from a roofline with a host-bound term, and the rate
// at which it saturates.
#pragma once

#include <cstdint>
#include <string>

#include "spec/model_config.h"
#include "topology/cluster.h"

namespace plait {

struct ServeRequest {
  std::string model_name;
  ModelConfig model;
  Cluster cluster;
  int tp = 1;
  int pp = 1;
  int64_t prompt = 0;  // tokens of a request
  int64_t output = 0;
  double rate = 0;  // requests a second on one replica of tp x pp devices; 0: no load is judged
  double memory_utilization = 0.9;  // of the device, as vLLM's gpu-memory-utilization
  int64_t max_num_seqs = 256;
  int64_t weight_bytes = 2;  // per parameter
  int64_t kv_bytes = 2;      // per element
  bool graph_mode = false;   // kernels launched as one captured graph
};

struct ServeEstimate {
  double weights = 0;       // bytes on one device
  double activations = 0;   // peak of a profiling run, bytes
  double kv_capacity = 0;   // bytes left for the cache on one device
  double kv_per_token = 0;  // bytes of all devices of a replica, MLA's copies and replicated kv
                            // heads counted once
  double kv_per_token_device = 0;  // on one device
  int64_t max_tokens = 0;          // of the cache
  int64_t concurrent = 0;          // sequences of prompt + output at once
  double prefill_s = 0;            // one prompt alone
  double decode_s = 0;             // one step of one sequence
  double decode_full_s = 0;        // one step of `concurrent` sequences
  double host_s = 0;               // host share of a decode step
  double saturation_rate = 0;      // requests a second
  bool saturated = false;          // rate >= saturation_rate
  // At `rate`; given only below 80 % of saturation, where queueing is short. 0 otherwise.
  double ttft_s = 0;
  double tpot_s = 0;
  double batch = 0;  // sequences running at once
  // Common rules of thumb beside the exact figures.
  double weights_rule = 0;  // weights x 1.2
  double kv_rule = 0;       // 2 x layers x hidden x bytes a token: ignores grouped kv heads
};

// Device memory beside weights and cache in vLLM's profile run: a constant of the family, not of
// the size (measured on H100: 4.8 to 5.6 GiB dense, 7.4 with experts; llm-d-planner).
double profile_peak_bytes(const ModelConfig& model);

// Errors: kInvalidArgument for sizes below 1, heads that tp does not divide, or weights that exceed
// the memory (naming how many devices would hold them).
ServeEstimate estimate_serving(const ServeRequest& request);

std::string serve_text(const ServeRequest& request, const ServeEstimate& estimate);

}  // namespace plait
