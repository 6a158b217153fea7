#include "train/memory_run.h"

#include <utility>

#include <fmt/format.h>

#include "comm/rank_runner.h"

namespace plait {

std::string describe(const MemoryCase& c) {
  return fmt::format("{} {} {} {} {}", c.layout, schedule_name(c.schedule),
                     recompute_name(c.recompute), dtype_name(c.dtype), c.tied ? "tied" : "untied");
}

EngineConfig memory_run_config(const MemoryCase& c, const ModelConfig& model, int64_t seq_len) {
  EngineConfig config;
  config.model = model;
  config.model.tie_word_embeddings = c.tied;
  Layout base;
  base.schedule = c.schedule;
  base.recompute = c.recompute;
  base.stage_layers = c.stage_layers;
  config.layout = parse_layout(c.layout, base);
  config.batch = {
      .global_batch_size = 8 * config.layout.dp, .micro_batch_size = 2, .seq_len = seq_len};
  config.compute_dtype = c.dtype;
  config.vocab_multiple = 8;
  config.bucket_count = c.bucket_count;
  check_run({.model = config.model, .layout = config.layout, .batch = config.batch});
  return config;
}

MemoryEstimate estimate_run(const EngineConfig& config) {
  return estimate_memory({.model = config.model,
                          .layout = config.layout,
                          .batch = config.batch,
                          .compute_dtype = config.compute_dtype,
                          .vocab_multiple = config.vocab_multiple,
                          .bucket_count = config.bucket_count});
}

std::vector<MemoryLedger::Totals> measure_memory(const EngineConfig& config) {
  const auto vocab = static_cast<int32_t>(config.model.vocab_size);
  const auto read_row = [&](int64_t row, int32_t* tokens, int32_t* targets) {
    for (int32_t i = 0; i < config.batch.seq_len; ++i) {
      tokens[i] = (static_cast<int32_t>(row) * 31 + i * 7) % vocab;
      targets[i] = (tokens[i] + 7) % vocab;
    }
  };
  RankRunnerOptions options;
  options.ranks = config.layout.world_size();
  options.threads_per_rank = 1;
  std::vector<MemoryLedger::Totals> totals(static_cast<size_t>(options.ranks));
  run_ranks(options, [&](World& world) {
    Engine engine(config, world);
    engine.init_weights(random_initial_values(1, config.model.initializer_range));
    for (int64_t step = 1; step <= 2; ++step) {
      const StepResult result = engine.forward_backward(read_row);
      engine.update(1e-3, step, result.grad_norm);
    }
    totals[static_cast<size_t>(world.rank())] = world.device().ledger().totals();
  });
  return totals;
}

int64_t peak(const MemoryLedger::Totals& totals, MemoryCategory category) {
  return totals.peak_bytes[static_cast<size_t>(category)];
}

double closed_form_state_bytes(const EngineConfig& config) {
  const double d = config.layout.zero >= 1 ? config.layout.dp : 1;
  return config.compute_dtype == DType::kF32 ? 8 + 8 / d : 6 + 12 / d;
}

double measured_state_bytes(const EngineConfig& config, const MemoryLedger::Totals& totals,
                            int pipeline_stage) {
  const auto table = make_parameter_table(
      config.model, {.tp = config.layout.tp, .vocab_multiple = config.vocab_multiple});
  int64_t parameters = 0;
  for (const LocalParam& param :
       make_flat_layout(table, config.model, config.layout, {.pipeline_stage = pipeline_stage})
           .params) {
    parameters += param.shard.count();
  }
  const int64_t rope = config.batch.seq_len * config.model.head_dim * 4;
  const int64_t states = peak(totals, MemoryCategory::kWeights) - rope +
                         peak(totals, MemoryCategory::kGradients) +
                         peak(totals, MemoryCategory::kOptimizer);
  return static_cast<double>(states) / static_cast<double>(parameters);
}

}  // namespace plait
