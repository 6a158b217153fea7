// What the user asks of the engine, and what comes of it before anything is loaded.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "model/decoder.h"
#include "parallel/parameter_store.h"
#include "serve/request.h"
#include "serve/scheduler.h"
#include "spec/model_config.h"
#include "topology/layout.h"

namespace plait {

// A model to serve, opened (not read).
struct ServedModel {
  std::string path;
  ModelConfig config;
  ParameterStore::ShardSource source;
  DType file_dtype = DType::kF32;   // of the matrices in the file; f32 for quantised ones
  std::vector<std::string> unused;  // tensors that the model does not use
};

enum class ServingDType : uint8_t { kAuto, kF32, kBF16 };
enum class Quantization : uint8_t { kNone, kW8 };

struct ServingOptions {
  Layout layout;
  std::string device = "cpu";
  int threads_per_rank = 0;  // 0: cores / local ranks
  // Of the activations; weights stay bf16 where the file has bf16. kAuto: bf16 for such files on
  // CPUs with bf16 products, else f32.
  ServingDType dtype = ServingDType::kAuto;
  ServingDType kv_dtype = ServingDType::kAuto;  // kAuto: that of the activations
  Quantization quantization = Quantization::kNone;
  int64_t max_model_len = 0;  // tokens; 0: the model's, or what the cache can hold
  double kv_cache_gib = 0;    // per rank; 0: from the free memory
  int64_t max_num_seqs = 32;
  int64_t max_num_queued = 256;
  int64_t max_num_batched_tokens = 512;
  // Aim for the longest gap of running streams while prompts are computed beside them, or four of
  // their own steps if that is longer.
  double max_gap_ms = 150;
  double target_ttft_ms = 0, target_tpot_ms = 0;  // of the admission control; 0: none
  bool prefix_reuse = true;
  bool eager = false;  // see DecoderOptions
  // Has the system provide the cache's memory before the first request, for servers: else the step
  // that is the first to use some waits for it.
  bool populate_cache = false;
  std::vector<int32_t> eos_token_ids = {};
  // Ids at or beyond it are never sampled (a tokenizer may have fewer than the model has rows); 0:
  // all.
  int64_t vocab_limit = 0;
  double stall_limit_s = 8;  // a rank that is silent for so long has failed
  // Under MPI: how long the processes stay after a rank was lost, to tell clients; see
  // RankRunnerOptions::leave_after_s.
  double failure_grace_s = 20;
  // Called by every rank but 0 when it hears of a step: for tests of ranks that stall or fail.
  std::function<void(int rank)> step_hook = {};
};

// What a start will do, per rank.
struct ServingPlan {
  Layout layout;
  WeightFormat format = WeightFormat::kF32;
  DecoderOptions decoder;
  SchedulerOptions scheduler;
  EngineLimits limits;
  bool populate_cache = false;
  int64_t weight_bytes = 0, buffer_bytes = 0, block_bytes = 0;  // of the largest rank

  int64_t kv_bytes() const { return block_bytes * decoder.num_blocks; }
  int64_t kv_tokens() const { return decoder.num_blocks * kKvBlockTokens; }
  // "weights 1.11 GiB, cache 2.00 GiB: 1170 blocks, 18720 tokens, 4 requests of 4096 tokens".
  std::string summary() const;
};

// Memory that ranks of this host may take: the free memory inside the cgroup limit.
struct HostLimits {
  int64_t free_bytes = 0;
  int local_ranks = 1;
};

// Errors: kInvalidArgument for a layout that does not fit the model, for max_model_len beyond the
// model's, and when weights and cache do not fit (figures per rank); kNotImplemented.
ServingPlan plan_serving(const ServedModel& model, const ServingOptions& options,
                         const HostLimits& host);

}  // namespace plait
