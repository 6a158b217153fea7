// One rank's training engine: model, optimizer and schedule under a layout. Knows nothing of files,
// flags or loops.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "model/transformer.h"
#include "parallel/data/gradient_reducer.h"
#include "parallel/parallel_context.h"
#include "parallel/parameter_store.h"
#include "parallel/pipeline/runner.h"
#include "parallel/zero/sharded_adamw.h"
#include "spec/validate.h"

namespace plait {

struct EngineConfig {
  ModelConfig model;
  Layout layout;
  BatchConfig batch;
  DType compute_dtype = DType::kF32;
  AdamwConfig adamw;
  double clip_grad_norm = 1.0;  // 0: off
  bool overlap_grad_reduce = true;
  int64_t bucket_count = 4 << 20;  // elements of a gradient bucket
  int64_t vocab_multiple = 1;      // see TableOptions
};

// Fills one row of the step's global batch: seq_len tokens and targets (negative: masked).
using RowReader = std::function<void(int64_t row, int32_t* tokens, int32_t* targets)>;

struct StepResult {
  double loss = 0;       // mean over the target tokens of the global batch
  double grad_norm = 0;  // before clipping; of the unscaled gradients
  int64_t target_tokens = 0;
  bool overflow = false;  // fp16: the scaled gradients left the range; the step must be skipped
};

// fp16 gradients are multiplied by `scale` so that small ones do not vanish: halved when they
// overflow, doubled after `growth_interval` good steps (Micikevicius et al. 2018; torch's
// GradScaler has the same constants). 1 and unchanged for other types.
struct LossScale {
  double scale = 65536;
  int64_t good_steps = 0;
  static constexpr int64_t kGrowthInterval = 2000;
  static constexpr double kScaleMax = 16777216;

  // After a step, on every rank alike.
  void update(bool overflow);
};

// Wall seconds of one step on this rank.
struct StepTimes {
  double total_s = 0;
  StepRecorder::Waits waits{};  // of forward_backward, by Wait
  double optimizer_s = 0;
};

class Engine {
 public:
  // Collective over the world. Requires a validated config (check_run).
  Engine(const EngineConfig& config, World& world);

  // Sets the weights, from values that depend on logical indices only.
  void init_weights(const ParameterStore::ShardSource& source);

  // Forward, backward, reduction. After it, gradients are summed and divided by the global count of
  // target tokens; weights are unchanged. Every rank returns the same result. Rows beyond the data
  // are padding that counts for nothing. Collective over the world.
  // Errors: kNonFinite naming step-independent facts: rank and layer.
  StepResult forward_backward(const RowReader& read);

  // Clips and applies the gradients of a step that did not overflow. `step` counts from 1.
  // Collective.
  void update(double lr, int64_t step, double grad_norm);

  // fp16 only: part of what a checkpoint must keep.
  const LossScale& loss_scale() const { return loss_scale_; }
  void set_loss_scale(const LossScale& scale) { loss_scale_ = scale; }

  // Loss of a batch without gradients (grad_norm 0; loss 0 without target tokens). Collective.
  StepResult evaluate(const RowReader& read);

  const EngineConfig& config() const { return config_; }
  const ParallelContext& context() const { return context_; }
  ParameterStore& store() { return store_; }
  ShardedAdamw& optimizer() { return optimizer_; }
  Transformer& model() { return model_; }
  const StepTimes& times() const { return times_; }
  int64_t num_microbatches() const { return num_microbatches_; }

 private:
  struct Loaded {
    std::vector<MicroBatch> microbatches;
    int64_t target_tokens = 0;  // of the whole world
  };
  Loaded load(const RowReader& read);
  // Sum over the pipeline's loss; the same on every rank.
  double world_loss(double local_sum);
  [[noreturn]] void report_non_finite(const RowReader& read, const StepResult& result);

  EngineConfig config_;
  int64_t num_microbatches_;
  ParallelContext context_;
  ParameterStore store_;
  ShardedAdamw optimizer_;
  GradientReducer reducer_;
  Transformer model_;
  PipelineRunner runner_;
  StepTimes times_;
  LossScale loss_scale_;
  double applied_scale_ = 1;  // in the gradients of the last forward_backward
};

}  // namespace plait
