#include "train/sample.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <numeric>

#include "base/error.h"
#include "base/rng.h"
#include "checkpoint/checkpoint_folder.h"
#include "checkpoint/hf_import.h"
#include "checkpoint/manifest.h"
#include "checkpoint/sharded_checkpoint.h"
#include "comm/rank_runner.h"
#include "train/engine.h"
#include "train/logits_collector.h"

namespace plait {
namespace {

// The folder with a manifest that `source` means, or empty for an HF directory.
std::string find_checkpoint(const std::string& source) {
  namespace fs = std::filesystem;
  if (fs::exists(fs::path(source) / kManifestName)) {
    return source;
  }
  for (const std::string& folder : {source, source + "/checkpoints"}) {
    if (const auto entry = find_latest_valid(folder)) {
      return entry->path;
    }
  }
  if (!fs::exists(fs::path(source) / "config.json")) {
    throw_error(
        ErrorCode::kNotFound,
        "'{}' holds neither a checkpoint (manifest.json, or step-N folders) nor an HF model "
        "(config.json)",
        source);
  }
  return "";
}

int32_t choose(const std::vector<float>& logits, const SampleOptions& options, uint64_t index) {
  const auto best = std::ranges::max_element(logits) - logits.begin();
  if (options.temperature <= 0) {
    return static_cast<int32_t>(best);
  }
  std::vector<int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::sort(order, [&](int32_t a, int32_t b) {
    return logits[static_cast<size_t>(a)] > logits[static_cast<size_t>(b)];
  });
  if (options.top_k > 0 && options.top_k < static_cast<int64_t>(order.size())) {
    order.resize(static_cast<size_t>(options.top_k));
  }
  std::vector<double> cumulative;
  double sum = 0;
  for (const int32_t token : order) {
    sum += std::exp((static_cast<double>(logits[static_cast<size_t>(token)]) -
                     logits[static_cast<size_t>(best)]) /
                    options.temperature);
    cumulative.push_back(sum);
  }
  const double target =
      static_cast<double>(random_bits(options.seed, hash_name("sample"), index) >> 11) * 0x1p-53 *
      sum;
  const auto chosen = std::ranges::upper_bound(cumulative, target) - cumulative.begin();
  return order[std::min(static_cast<size_t>(chosen), order.size() - 1)];
}

}  // namespace

void sample_tokens(const SampleOptions& options, const std::function<void(int32_t)>& emit) {
  const std::string checkpoint = find_checkpoint(options.source);
  EngineConfig config;
  config.model =
      checkpoint.empty() ? load_model_config(options.source) : read_manifest(checkpoint).model;
  check_trainable(config.model, options.source);
  std::vector<int32_t> tokens = options.prompt;
  for (const int32_t token : tokens) {
    if (token < 0 || token >= config.model.vocab_size) {
      throw_error(ErrorCode::kInvalidArgument, "prompt: token {} is outside the vocabulary of {}",
                  token, config.model.vocab_size);
    }
  }
  const int64_t length = static_cast<int64_t>(tokens.size()) + options.num_tokens;
  if (tokens.empty() || options.num_tokens < 1 || length > config.model.max_position_embeddings) {
    throw_error(ErrorCode::kInvalidArgument,
                "prompt of {} and {} new tokens: both must be at least 1 and fit the model's {} "
                "positions together",
                tokens.size(), options.num_tokens, config.model.max_position_embeddings);
  }
  config.batch = {.global_batch_size = 1, .micro_batch_size = 1, .seq_len = length};
  RankRunnerOptions runner;
  runner.threads_per_rank = options.threads;
  run_ranks(runner, [&](World& world) {
    Engine engine(config, world);
    if (checkpoint.empty()) {
      engine.init_weights(open_hf_weights(options.source, config.model).source);
    } else {
      load_checkpoint({engine.store(), engine.optimizer(), engine.context(), config.model},
                      checkpoint, {.optimizer = false});
    }
    LogitsCollector logits(engine);
    for (int64_t i = 0; i < options.num_tokens; ++i) {
      engine.evaluate([&](int64_t /*row*/, int32_t* row_tokens, int32_t* targets) {
        std::fill(row_tokens, row_tokens + length, 0);
        std::fill(targets, targets + length, -100);
        std::ranges::copy(tokens, row_tokens);
      });
      logits.request(0, static_cast<int64_t>(tokens.size()) - 1);
      tokens.push_back(choose(logits.gather().front(), options, static_cast<uint64_t>(i)));
      emit(tokens.back());
    }
  });
}

}  // namespace plait
