// Training that stops and resumes: under the same layout bit by bit as if it had not stopped,
// under another one within rounding.
#include <cmath>

#include <gtest/gtest.h>

#include "base/rng.h"
#include "checkpoint/sharded_checkpoint.h"
#include "comm/rank_runner.h"
#include "parallel/logical_tensors.h"
#include "support/test_files.h"
#include "train/engine.h"

namespace plait {
namespace {

constexpr int64_t kSeqLen = 8;
constexpr int64_t kVocab = 37;
constexpr int kSteps = 10;

struct RunOptions {
  std::string layout = "dp1";
  DType dtype = DType::kF32;
  int64_t vocab_multiple = 1;
};

EngineConfig make_config(const RunOptions& options) {
  EngineConfig config;
  config.model.family = ModelFamily::kQwen3;
  config.model.vocab_size = kVocab;
  config.model.hidden_size = 16;
  config.model.ffn_hidden_size = 24;
  config.model.num_layers = 4;
  config.model.num_heads = 4;
  config.model.num_kv_heads = 2;
  config.model.head_dim = 4;
  config.model.max_position_embeddings = 64;
  config.model.tie_word_embeddings = true;
  config.model.qk_norm = true;
  config.model.initializer_range = 0.1;
  config.layout = parse_layout(options.layout);
  config.batch = {.global_batch_size = 8, .micro_batch_size = 1, .seq_len = kSeqLen};
  config.bucket_count = 700;
  config.compute_dtype = options.dtype;
  config.vocab_multiple = options.vocab_multiple;
  return config;
}

struct Curve {
  std::vector<double> losses;
  std::map<std::string, std::vector<float>> weights;  // masters at the end
};

// Steps [first, last]. Resumes from `load` unless empty; saves at the end to `save` unless empty.
struct Part {
  int first = 1, last = kSteps;
  std::string load, save;
};

Curve train(const RunOptions& options, const Part& part) {
  const EngineConfig config = make_config(options);
  RankRunnerOptions runner;
  runner.ranks = config.layout.world_size();
  runner.threads_per_rank = 1;
  Curve curve;
  run_ranks(runner, [&](World& world) {
    Engine engine(config, world);
    engine.init_weights(random_initial_values(3, config.model.initializer_range));
    const TrainState state{engine.store(), engine.optimizer(), engine.context(),
                           engine.config().model};
    if (!part.load.empty()) {
      const std::optional<LoadedCheckpoint> loaded = load_latest(state, part.load);
      ASSERT_TRUE(loaded);
      ASSERT_EQ(loaded->meta.step, part.first - 1);
    }
    for (int step = part.first; step <= part.last; ++step) {
      const StepResult result =
          engine.forward_backward([&](int64_t row, int32_t* tokens, int32_t* targets) {
            for (int64_t i = 0; i < kSeqLen; ++i) {
              const uint64_t bits =
                  random_bits(static_cast<uint64_t>(step), static_cast<uint64_t>(row),
                              static_cast<uint64_t>(i));
              tokens[i] = static_cast<int32_t>(bits % kVocab);
              targets[i] = static_cast<int32_t>(bits / kVocab % kVocab);
            }
          });
      engine.update(2e-3, step, result.grad_norm);
      if (world.rank() == 0) {
        curve.losses.push_back(result.loss);
      }
    }
    if (!part.save.empty()) {
      save_checkpoint(state, {.directory = part.save}, {.step = part.last});
    }
    auto weights =
        gather_logical(LogicalKind::kMaster, engine.store(), engine.optimizer(), engine.context());
    if (world.rank() == 0) {
      curve.weights = std::move(weights);
    }
  });
  return curve;
}

class Resume : public testing::TestWithParam<RunOptions> {};

TEST_P(Resume, SameLayoutIsBitIdentical) {
  const TestFolder folder;
  const Curve straight = train(GetParam(), {});
  const Curve first = train(GetParam(), {.first = 1, .last = 5, .load = "", .save = folder.path()});
  const Curve second =
      train(GetParam(), {.first = 6, .last = kSteps, .load = folder.path(), .save = ""});
  std::vector<double> joined = first.losses;
  joined.insert(joined.end(), second.losses.begin(), second.losses.end());
  EXPECT_EQ(joined, straight.losses);
  EXPECT_EQ(second.weights, straight.weights);
}

TEST_P(Resume, AnotherLayoutAgrees) {
  const TestFolder folder;
  const RunOptions one_rank{.layout = "dp1", .dtype = GetParam().dtype};
  train(GetParam(), {.first = 1, .last = 5, .load = "", .save = folder.path()});
  for (const char* layout : {"dp1", "dp2.tp2.sp.zero1"}) {
    const Curve straight = train(one_rank, {});
    const Curve second = train({.layout = layout, .dtype = GetParam().dtype},
                               {.first = 6, .last = kSteps, .load = folder.path(), .save = ""});
    ASSERT_EQ(second.losses.size(), 5U);
    const double tolerance = GetParam().dtype == DType::kF32 ? 1e-5 : 2e-3;
    for (size_t i = 0; i < second.losses.size(); ++i) {
      EXPECT_NEAR(second.losses[i], straight.losses[i + 5], tolerance * straight.losses[i + 5])
          << layout;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Layouts, Resume,
    testing::Values(RunOptions{.layout = "dp1"}, RunOptions{.layout = "dp2.zero1"},
                    RunOptions{.layout = "dp2.zero1", .dtype = DType::kBF16},
                    RunOptions{.layout = "pp2.vpp2"},
                    RunOptions{.layout = "dp2.tp2.pp2.sp.zero1", .vocab_multiple = 4}));

}  // namespace
}  // namespace plait
