#include "train/small_run.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cmath>

#include "base/rng.h"
#include "comm/rank_runner.h"
#include "parallel/logical_tensors.h"

namespace plait {
namespace {

EngineConfig engine_config(const SmallRun& run) {
  EngineConfig config;
  config.model = small_model(run.tied);
  Layout base;
  base.schedule = run.schedule;
  config.layout = parse_layout(run.layout, base);
  config.layout.stage_layers = run.stage_layers;
  config.layout.recompute = run.recompute;
  config.batch = {.global_batch_size = kSmallRows,
                  .micro_batch_size = run.micro_batch_size,
                  .seq_len = kSmallSeqLen};
  config.vocab_multiple = run.vocab_multiple;
  config.bucket_count = run.bucket_count;
  config.compute_dtype = run.dtype;
  config.overlap_grad_reduce = run.overlap;
  if (run.adjust) {
    run.adjust(config);
  }
  check_run({config.model, config.layout, config.batch, config.layout.world_size()});
  return config;
}

std::map<std::string, std::vector<float>> gather(Engine& engine, LogicalKind kind) {
  return gather_logical(kind, engine.store(), engine.optimizer(), engine.context());
}

}  // namespace

ModelConfig small_model(bool tied) {
  ModelConfig config;
  config.family = ModelFamily::kQwen3;
  config.vocab_size = kSmallVocab;
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

void small_row(int step, int64_t row, int32_t* tokens, int32_t* targets) {
  const auto stream = static_cast<uint64_t>(step * 1000 + row);
  for (int64_t i = 0; i < kSmallSeqLen; ++i) {
    tokens[i] = static_cast<int32_t>(random_bits(5, stream, static_cast<uint64_t>(i)) % 67);
    const uint64_t bits = random_bits(6, stream, static_cast<uint64_t>(i));
    targets[i] = bits % 16 < static_cast<uint64_t>(row) ? -100 : static_cast<int32_t>(bits % 67);
  }
}

SmallResult run_small(const SmallRun& run) {
  const EngineConfig config = engine_config(run);
  const auto read_row = run.read_row ? run.read_row : small_row;
  SmallResult result;
  RankRunnerOptions runner;
  runner.ranks = config.layout.world_size();
  runner.device = run.device;
  runner.threads_per_rank = 1;
  runner.comm.deadline_s = 120;
  run_ranks(runner, [&](World& world) {
    const bool is_root = world.rank() == 0;
    Engine engine(config, world);
    engine.init_weights(random_initial_values(3, config.model.initializer_range));
    if (run.after_step) {
      run.after_step(engine, 0);
    }
    for (int step = 1; step <= run.steps; ++step) {
      const StepResult done =
          engine.forward_backward([&](int64_t row, int32_t* tokens, int32_t* targets) {
            read_row(step, row, tokens, targets);
          });
      if (step == 1) {
        auto grads = gather(engine, LogicalKind::kGradient);
        if (is_root) {
          result.grads = std::move(grads);
        }
      }
      if (!done.overflow) {
        engine.update(2e-3, step, done.grad_norm);
      }
      if (is_root) {
        result.losses.push_back(done.loss);
        result.norms.push_back(done.grad_norm);
      }
      if (run.after_step) {
        run.after_step(engine, step);
      }
    }
    auto weights = gather(engine, LogicalKind::kMaster);
    if (is_root) {
      result.weights = std::move(weights);
    }
  });
  return result;
}

std::string small_run_name(const SmallRun& run) {
  std::string name = run.layout + "_" + schedule_name(run.schedule) + "_" +
                     recompute_name(run.recompute) + (run.tied ? "_tied" : "_untied") + "_" +
                     run.device;
  for (const int64_t layers : run.stage_layers) {
    name += "_" + std::to_string(layers);
  }
  name += run.vocab_multiple > 1 ? "_padded" : "";
  name += run.overlap ? "" : "_no_overlap";
  std::ranges::replace_if(
      name, [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0; }, '_');
  return name;
}

TensorError largest_error(const std::map<std::string, std::vector<float>>& expected,
                          const std::map<std::string, std::vector<float>>& actual) {
  TensorError worst;
  for (const auto& [name, values] : expected) {
    const std::vector<float>& others = actual.at(name);
    EXPECT_EQ(values.size(), others.size()) << name;
    double largest = 0;
    double difference = 0;
    for (size_t i = 0; i < values.size(); ++i) {
      largest = std::max(largest, std::fabs(static_cast<double>(values[i])));
      difference = std::max(difference, std::fabs(static_cast<double>(values[i]) - others[i]));
    }
    if (!(difference / largest <= worst.error)) {
      worst = {difference / largest, name};
    }
  }
  return worst;
}

double worst_loss_error(const SmallResult& expected, const SmallResult& actual) {
  double worst = 0;
  EXPECT_EQ(expected.losses.size(), actual.losses.size());
  for (size_t i = 0; i < actual.losses.size(); ++i) {
    const double error = std::fabs(actual.losses[i] / expected.losses[i] - 1);
    worst = error <= worst ? worst : error;  // keeps NaN
  }
  return worst;
}

void expect_f32_parity(const SmallResult& expected, const SmallResult& actual) {
  ASSERT_GE(expected.losses.size(), actual.losses.size());
  for (size_t i = 0; i < actual.losses.size(); ++i) {
    EXPECT_NEAR(actual.losses[i] / expected.losses[i], 1, 1e-5) << "loss of step " << i + 1;
    EXPECT_NEAR(actual.norms[i] / expected.norms[i], 1, i == 0 ? 1e-5 : 1e-3)
        << "gradient norm of step " << i + 1;
  }
  const TensorError grads = largest_error(expected.grads, actual.grads);
  EXPECT_LE(grads.error, 1e-5) << grads.name;
  if (expected.losses.size() == actual.losses.size()) {
    const TensorError weights = largest_error(expected.weights, actual.weights);
    EXPECT_LE(weights.error, 1e-2) << weights.name;
  }
}

void expect_identical(const SmallResult& expected, const SmallResult& actual) {
  EXPECT_EQ(actual.losses, expected.losses);
  EXPECT_EQ(actual.norms, expected.norms);
  EXPECT_EQ(actual.grads, expected.grads);
  EXPECT_EQ(actual.weights, expected.weights);
}

}  // namespace plait
