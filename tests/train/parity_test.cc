// Every layout gives the training run of one rank: losses, gradient norms and the gradients of the
// first step, on every device.
#include <algorithm>
#include <cmath>
#include <map>
#include <mutex>

#include <gtest/gtest.h>

#include "base/rng.h"
#include "comm/rank_runner.h"
#include "parallel/logical_tensors.h"
#include "train/engine.h"

namespace plait {
namespace {

constexpr int64_t kSeqLen = 12;
constexpr int64_t kRows = 16;
constexpr int kSteps = 20;

ModelConfig small_model(bool tied) {
  ModelConfig config;
  config.family = ModelFamily::kQwen3;
  config.vocab_size = 67;
  config.hidden_size = 32;
  config.ffn_hidden_size = 48;
  config.num_layers = 4;
  config.num_heads = 8;
  config.num_kv_heads = 4;
  config.head_dim = 8;
  config.max_position_embeddings = 64;
  config.tie_word_embeddings = tied;
  config.qk_norm = true;
  config.qkv_bias = !tied;
  config.o_bias = !tied;
  config.mlp_bias = !tied;
  config.initializer_range = 0.1;
  return config;
}

struct RunResult {
  std::vector<double> losses;
  std::vector<double> norms;
  std::map<std::string, std::vector<float>> grads;    // of step 1
  std::map<std::string, std::vector<float>> weights;  // at the end
};

struct RunOptions {
  std::string layout = "dp1";
  std::vector<int64_t> stage_layers = {};
  Recompute recompute = Recompute::kNone;
  ScheduleKind schedule = ScheduleKind::kOneFOneB;
  bool tied = true;
  std::string device = "cpu";
  int64_t vocab_multiple = 1;
  int64_t bucket_count = 2000;
  DType dtype = DType::kF32;
  bool overlap = true;
};

// Random tokens; some labels are masked, unevenly over the rows.
void read_row(int step, int64_t row, int32_t* tokens, int32_t* targets) {
  const auto stream = static_cast<uint64_t>(step * 1000 + row);
  for (int64_t i = 0; i < kSeqLen; ++i) {
    tokens[i] = static_cast<int32_t>(random_bits(5, stream, static_cast<uint64_t>(i)) % 67);
    const uint64_t bits = random_bits(6, stream, static_cast<uint64_t>(i));
    targets[i] = bits % 16 < static_cast<uint64_t>(row) ? -100 : static_cast<int32_t>(bits % 67);
  }
}

RunResult train(const RunOptions& options) {
  EngineConfig config;
  config.model = small_model(options.tied);
  Layout base;
  base.schedule = options.schedule;
  config.layout = parse_layout(options.layout, base);
  config.layout.stage_layers = options.stage_layers;
  config.layout.recompute = options.recompute;
  config.batch = {.global_batch_size = kRows, .micro_batch_size = 1, .seq_len = kSeqLen};
  config.vocab_multiple = options.vocab_multiple;
  config.bucket_count = options.bucket_count;
  config.compute_dtype = options.dtype;
  config.overlap_grad_reduce = options.overlap;
  check_run({config.model, config.layout, config.batch, config.layout.world_size()});
  RunResult run;
  RankRunnerOptions runner;
  runner.ranks = config.layout.world_size();
  runner.device = options.device;
  runner.threads_per_rank = 1;
  run_ranks(runner, [&](World& world) {
    Engine engine(config, world);
    engine.init_weights(random_initial_values(3, config.model.initializer_range));
    for (int step = 1; step <= kSteps; ++step) {
      const StepResult result =
          engine.forward_backward([&](int64_t row, int32_t* tokens, int32_t* targets) {
            read_row(step, row, tokens, targets);
          });
      if (step == 1) {
        auto grads = gather_logical(LogicalKind::kGradient, engine.store(), engine.optimizer(),
                                    engine.context());
        if (world.rank() == 0) {
          run.grads = std::move(grads);
        }
      }
      engine.update(2e-3, step, result.grad_norm);
      if (world.rank() == 0) {
        run.losses.push_back(result.loss);
        run.norms.push_back(result.grad_norm);
      }
    }
    auto weights =
        gather_logical(LogicalKind::kMaster, engine.store(), engine.optimizer(), engine.context());
    if (world.rank() == 0) {
      run.weights = std::move(weights);
    }
  });
  return run;
}

const RunResult& reference(bool tied) {
  static const RunResult tied_run = train({.tied = true});
  static const RunResult untied_run = train({.tied = false});
  return tied ? tied_run : untied_run;
}

// Largest difference relative to the largest reference value, over all tensors.
double largest_error(const std::map<std::string, std::vector<float>>& expected,
                     const std::map<std::string, std::vector<float>>& actual, std::string* where) {
  double worst = 0;
  for (const auto& [name, values] : expected) {
    const std::vector<float>& others = actual.at(name);
    double largest = 0;
    double difference = 0;
    for (size_t i = 0; i < values.size(); ++i) {
      largest = std::max(largest, std::fabs(static_cast<double>(values[i])));
      difference = std::max(difference, std::fabs(static_cast<double>(values[i]) - others[i]));
    }
    if (difference / largest > worst) {
      worst = difference / largest;
      *where = name;
    }
  }
  return worst;
}

void expect_parity(const RunOptions& options) {
  const RunResult& expected = reference(options.tied);
  const RunResult actual = train(options);
  for (size_t i = 0; i < kSteps; ++i) {
    EXPECT_NEAR(actual.losses[i] / expected.losses[i], 1, 1e-5) << "loss of step " << i + 1;
    EXPECT_NEAR(actual.norms[i] / expected.norms[i], 1, i == 0 ? 1e-5 : 1e-3)
        << "gradient norm of step " << i + 1;
  }
  std::string where;
  EXPECT_LE(largest_error(expected.grads, actual.grads, &where), 1e-5) << where;
  EXPECT_LE(largest_error(expected.weights, actual.weights, &where), 1e-2) << where;
  const RunResult again = train(options);
  EXPECT_EQ(actual.losses, again.losses);
  EXPECT_EQ(actual.norms, again.norms);
  EXPECT_EQ(actual.weights, again.weights);
}

std::vector<RunOptions> layouts() {
  using enum ScheduleKind;
  return {
      {.layout = "dp2", .tied = false},
      {.layout = "dp2.zero1"},
      {.layout = "dp8.zero1", .tied = false},
      {.layout = "dp8", .recompute = Recompute::kSelective},
      {.layout = "tp2", .tied = false},
      {.layout = "tp2.sp"},
      {.layout = "tp4.sp", .tied = false},
      {.layout = "tp4", .recompute = Recompute::kFull},
      {.layout = "pp2", .tied = true},
      {.layout = "pp2", .schedule = kGpipe, .tied = false},
      {.layout = "pp4", .tied = false},
      {.layout = "pp2", .stage_layers = {3, 1}, .tied = true},
      {.layout = "pp3", .stage_layers = {2, 2, 0}, .tied = false},
      {.layout = "pp2.vpp2", .schedule = kInterleaved, .tied = true},
      {.layout = "pp2.vpp2.tp2.sp",
       .recompute = Recompute::kSelective,
       .schedule = kInterleaved,
       .tied = false},
      {.layout = "dp2.pp2.zero1", .recompute = Recompute::kFull, .tied = true},
      {.layout = "dp2.tp2.zero1", .tied = false, .vocab_multiple = 16},
      {.layout = "dp2.tp2.pp2.sp.zero1", .tied = true},
      {.layout = "dp2.tp2.pp2.sp.zero1", .recompute = Recompute::kSelective, .tied = false},
      {.layout = "dp2.pp4.zero1", .tied = true, .vocab_multiple = 128},
      {.layout = "dp2.tp2.pp2", .tied = false, .overlap = false},
      {.layout = "dp4.tp2.sp.zero1", .tied = true, .bucket_count = 100},
  };
}

class Parity : public testing::TestWithParam<std::tuple<size_t, std::string>> {};

TEST_P(Parity, MatchesOneRank) {
  RunOptions options = layouts()[std::get<0>(GetParam())];
  options.device = std::get<1>(GetParam());
  SCOPED_TRACE(options.layout + " on " + options.device);
  expect_parity(options);
}

INSTANTIATE_TEST_SUITE_P(Layouts, Parity,
                         testing::Combine(testing::Range<size_t>(0, layouts().size()),
                                          testing::Values("cpu")),
                         [](const testing::TestParamInfo<Parity::ParamType>& param) {
                           std::string name = layouts()[std::get<0>(param.param)].layout + "_" +
                                              std::get<1>(param.param) + "_" +
                                              std::to_string(std::get<0>(param.param));
                           std::replace(name.begin(), name.end(), '.', '_');
                           return name;
                         });

TEST(ParityReference, TheLossFalls) {
  const RunResult& run = reference(true);
  EXPECT_LT(run.losses.back(), run.losses.front());
}

}  // namespace
}  // namespace plait
