// Options of every subcommand that runs a model: serve, generate, chat.
#pragma once

#include <span>
#include <string>

#include "serve/options.h"

namespace CLI {
class App;
}

namespace plait {

// A number that a flag was given and what it may be.
struct FlagRange {
  const char* flag;
  double value = 0;
  double least = 0;
  double most = 0;
};
// Longest time in seconds that a flag may say: eleven days.
constexpr double kLongestS = 1e6;

// Errors: kInvalidArgument naming the first flag that is out of its range, or no number (nan).
void check_ranges(std::span<const FlagRange> flags);

struct EngineFlags {
  ServingOptions options;
  std::string layout = "dp1";
  std::string dtype = "auto";
  std::string kv_dtype = "auto";
  std::string quantize = "none";
};

// --layout, --threads, --dtype, --kv-dtype, --quantize, --max-model-len, --kv-cache-gib, --eager,
// --no-prefix-reuse.
void add_engine_options(CLI::App& app, EngineFlags& flags);
// --max-num-seqs, --max-num-queued-reqs, --max-num-batched-tokens, --max-gap-ms, --target-ttft-ms,
// --target-tpot-ms, --stall-limit: of many requests at a time.
void add_load_options(CLI::App& app, EngineFlags& flags);

// What the flags say. Errors: kInvalidArgument naming the flag.
ServingOptions serving_options(const EngineFlags& flags);

}  // namespace plait
