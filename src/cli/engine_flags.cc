#include "cli/engine_flags.h"

#include <CLI/CLI.hpp>

#include "base/error.h"

namespace plait {
namespace {

ServingDType parse_serving_dtype(const char* flag, const std::string& name) {
  if (name == "auto") {
    return ServingDType::kAuto;
  }
  if (name == "f32" || name == "float32") {
    return ServingDType::kF32;
  }
  if (name == "bf16" || name == "bfloat16") {
    return ServingDType::kBF16;
  }
  throw_error(ErrorCode::kInvalidArgument, "{} is '{}'; it must be auto, bf16 or f32", flag, name);
}

}  // namespace

void check_ranges(std::span<const FlagRange> flags) {
  for (const FlagRange& flag : flags) {
    if (!(flag.value >= flag.least && flag.value <= flag.most)) {
      throw_error(ErrorCode::kInvalidArgument, "{} is {}; it must be {} to {}", flag.flag,
                  flag.value, flag.least, flag.most);
    }
  }
}

void add_engine_options(CLI::App& app, EngineFlags& flags) {
  ServingOptions& options = flags.options;
  app.add_option("--layout", flags.layout, "how the model is split: tp2, pp2, tp2.pp2, ...")
      ->capture_default_str();
  app.add_option("--threads", options.threads_per_rank, "of a rank; 0: cores / local ranks");
  app.add_option("--dtype", flags.dtype, "of the arithmetic: auto, bf16, f32")
      ->capture_default_str();
  app.add_option("--kv-dtype", flags.kv_dtype, "of the KV cache: auto, bf16, f32")
      ->capture_default_str();
  app.add_option("--quantize", flags.quantize, "of the weights: none, w8")->capture_default_str();
  app.add_option("--max-model-len", options.max_model_len,
                 "longest prompt and answer together; 0: the model's, or what the cache holds");
  app.add_option("--kv-cache-gib", options.kv_cache_gib,
                 "KV cache of a rank; 0: from the free memory");
  app.add_flag("--eager", options.eager, "prepare every step anew instead of once: the reference");
  app.add_flag(
      "--no-prefix-reuse", [&options](int64_t) { options.prefix_reuse = false; },
      "compute equal beginnings again");
}

void add_load_options(CLI::App& app, EngineFlags& flags) {
  ServingOptions& options = flags.options;
  app.add_option("--max-num-seqs", options.max_num_seqs, "requests that run at a time")
      ->capture_default_str();
  app.add_option("--max-num-queued-reqs", options.max_num_queued,
                 "requests that wait; more are answered 429")
      ->capture_default_str();
  app.add_option("--max-num-batched-tokens", options.max_num_batched_tokens, "tokens of a step")
      ->capture_default_str();
  app.add_option(
         "--max-gap-ms", options.max_gap_ms,
         "longest step to aim for while streams run beside a prompt (at least four of theirs)")
      ->capture_default_str();
  app.add_option("--target-ttft-ms", options.target_ttft_ms,
                 "adapt the number of running requests to this time to the first token; 0: off");
  app.add_option("--target-tpot-ms", options.target_tpot_ms,
                 "likewise, to this time between tokens; 0: off");
  app.add_option("--stall-limit", options.stall_limit_s,
                 "seconds without a sign of life after which a rank has failed")
      ->capture_default_str();
}

ServingOptions serving_options(const EngineFlags& flags) {
  ServingOptions options = flags.options;
  constexpr double kMostThreads = 1024;
  constexpr double kMostGib = 1e6;
  constexpr double kLongestMs = kLongestS * 1e3;
  const FlagRange ranges[] = {
      {"--threads", static_cast<double>(options.threads_per_rank), 0, kMostThreads},
      {"--kv-cache-gib", options.kv_cache_gib, 0, kMostGib},
      {"--max-gap-ms", options.max_gap_ms, 1, kLongestMs},
      {"--target-ttft-ms", options.target_ttft_ms, 0, kLongestMs},
      {"--target-tpot-ms", options.target_tpot_ms, 0, kLongestMs},
      {"--stall-limit", options.stall_limit_s, 0.5, kLongestS},
      {"--failure-grace", options.failure_grace_s, 0, kLongestS},
  };
  check_ranges(ranges);
  options.layout = parse_layout(flags.layout);
  options.dtype = parse_serving_dtype("--dtype", flags.dtype);
  options.kv_dtype = parse_serving_dtype("--kv-dtype", flags.kv_dtype);
  if (flags.quantize != "none" && flags.quantize != "w8") {
    throw_error(ErrorCode::kInvalidArgument, "--quantize is '{}'; it must be none or w8",
                flags.quantize);
  }
  options.quantization = flags.quantize == "w8" ? Quantization::kW8 : Quantization::kNone;
  return options;
}

}  // namespace plait
