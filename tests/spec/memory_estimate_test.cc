#include "spec/memory_estimate.h"

#include <gtest/gtest.h>

#include <limits>

#include "random_run.h"
#include "spec/activation_table.h"
#include "spec/parameter_table.h"

namespace plait {
namespace {

// Llama 3 8B.
MemoryRequest large(const std::string& layout, DType dtype = DType::kBF16) {
  MemoryRequest request;
  ModelConfig& model = request.model;
  model.vocab_size = 128256;
  model.hidden_size = 4096;
  model.ffn_hidden_size = 14336;
  model.num_layers = 32;
  model.num_heads = 32;
  model.num_kv_heads = 8;
  model.head_dim = 128;
  model.max_position_embeddings = 8192;
  request.layout = parse_layout(layout);
  request.batch = {.global_batch_size = 64 * request.layout.dp, .seq_len = 4096};
  request.compute_dtype = dtype;
  return request;
}

int64_t states(const StageMemory& stage) {
  return stage.weights.bytes + stage.gradients.bytes + stage.optimizer.bytes;
}

int64_t layer_bytes(const MemoryRequest& request) {
  return layer_saved_bytes(request.model, request.layout,
                           {.tokens = request.batch.micro_batch_size * request.batch.seq_len,
                            .dtype = request.compute_dtype});
}

// Parameters that a rank of the stage stores, without padding.
int64_t stored(const MemoryRequest& request, int stage) {
  const auto table = make_parameter_table(request.model, {.tp = request.layout.tp});
  int64_t count = 0;
  for (const LocalParam& param :
       make_flat_layout(table, request.model, request.layout, {.pipeline_stage = stage}).params) {
    count += param.shard.count();
  }
  return count;
}

void expect_ratio(double value, double expected, double tolerance) {
  EXPECT_NEAR(value / expected, 1, tolerance) << value << " against " << expected;
}

// Bytes a parameter: f32 16, or 8 + 8/D under ZeRO-1; bf16 18, or 6 + 12/D.
TEST(MemoryEstimate, StatesAreTheClosedForms) {
  for (const char* shape : {"dp1", "tp4", "tp2.pp4", "dp8.tp2.pp2.sp", "pp4.vpp2"}) {
    for (const int dp : {1, 2, 8, 64}) {
      for (const int zero : {0, 1}) {
        for (const DType dtype : {DType::kF32, DType::kBF16}) {
          MemoryRequest request = large(shape, dtype);
          request.layout.dp = dp;
          request.layout.zero = zero;
          request.batch.global_batch_size = 8 * dp;
          const double d = zero == 1 ? dp : 1;
          const double per_parameter = dtype == DType::kF32 ? 8 + 8 / d : 6 + 12 / d;
          for (const StageMemory& stage : estimate_memory(request).stages) {
            expect_ratio(static_cast<double>(states(stage)),
                         per_parameter * static_cast<double>(stored(request, stage.stage)), 1e-3);
          }
        }
      }
    }
  }
}

TEST(MemoryEstimate, OneRankHoldsEveryLayerOnce) {
  const MemoryRequest request = large("dp1");
  const MemoryEstimate estimate = estimate_memory(request);
  expect_ratio(static_cast<double>(estimate.largest().activations.bytes),
               32.0 * static_cast<double>(layer_bytes(request)), 0.02);
  EXPECT_EQ(estimate.largest().late_send_bytes, 0);
  EXPECT_EQ(estimate.largest().max_in_flight, 1);
}

// 1F1B: stage i keeps min(m, p - i) micro-batches of L/p layers, so stage 0 all L layers' worth.
TEST(MemoryEstimate, OneFOneBKeepsWhatTheTextbookSays) {
  for (const char* shape : {"pp2", "pp4", "pp8", "tp4.pp4.sp"}) {
    const MemoryRequest request = large(shape);
    const MemoryEstimate estimate = estimate_memory(request);
    const int64_t layers = 32 / request.layout.pp;
    for (const StageMemory& stage : estimate.stages) {
      const int in_flight = request.layout.pp - stage.stage;
      EXPECT_EQ(stage.max_in_flight, in_flight);
      // Beside the layers: an output and a gradient at a border, and token ids.
      const int64_t kept = in_flight * layers * layer_bytes(request);
      const int64_t prompt = stage.activations.bytes - stage.late_send_bytes;
      EXPECT_GE(prompt, kept);
      EXPECT_LE(prompt, kept + 2 * 2 * 4096 * 4096 + 64 * 4 * 4096);
      if (stage.stage == 0) {
        expect_ratio(static_cast<double>(prompt), 32.0 * static_cast<double>(layer_bytes(request)),
                     0.02);
      }
    }
    EXPECT_EQ(&estimate.largest(), &estimate.stages.front());
  }
}

TEST(MemoryEstimate, GpipeKeepsEveryMicrobatch) {
  MemoryRequest request = large("pp4");
  request.layout.schedule = ScheduleKind::kGpipe;
  for (const StageMemory& stage : estimate_memory(request).stages) {
    EXPECT_EQ(stage.max_in_flight, 64);
    expect_ratio(static_cast<double>(stage.activations.bytes - stage.late_send_bytes),
                 64 * 8.0 * static_cast<double>(layer_bytes(request)), 0.02);
  }
}

// 1 + (p-1)/(p v) times 1F1B's (Korthikanti et al. 2022).
TEST(MemoryEstimate, InterleavingCostsTheKnownFactor) {
  for (const int vpp : {2, 4, 8}) {
    MemoryRequest request = large("pp4");
    request.layout.vpp = vpp;
    request.layout.schedule = ScheduleKind::kInterleaved;
    const StageMemory stage = estimate_memory(request).stages.front();
    expect_ratio(static_cast<double>(stage.activations.bytes - stage.late_send_bytes),
                 (1 + 3.0 / (4 * vpp)) * 32.0 * static_cast<double>(layer_bytes(request)), 0.02);
  }
}

// Full recomputation: 2 s b h a layer and micro-batch, and one layer at a time as workspace.
TEST(MemoryEstimate, FullRecomputationKeepsInputs) {
  MemoryRequest request = large("dp1");
  const int64_t kept_without = layer_bytes(request);
  request.layout.recompute = Recompute::kFull;
  const StageMemory stage = estimate_memory(request).largest();
  const double sbh = 4096.0 * 4096;
  // The layers' inputs, the last output and the gradient that meets it; ids of all micro-batches.
  EXPECT_EQ(stage.activations.bytes, static_cast<int64_t>(2 * sbh * (32 + 2)) + 64 * 2 * 4 * 4096);
  EXPECT_GE(stage.workspace.bytes, kept_without - static_cast<int64_t>(2 * sbh));
}

// The logits of one micro-batch are the head's workspace: s b V / t in compute precision.
TEST(MemoryEstimate, LogitsAreWorkspaceOfTheLastStage) {
  for (const char* shape : {"pp2", "tp2.pp2", "tp4.pp4.sp"}) {
    const MemoryRequest request = large(shape);
    const MemoryEstimate estimate = estimate_memory(request);
    const int64_t logits = 2 * 4096 * (int64_t{128256} / request.layout.tp);
    EXPECT_GE(estimate.stages.back().workspace.bytes, logits);
    EXPECT_LT(estimate.stages.front().workspace.bytes, logits);
    EXPECT_LT(estimate.stages.back().workspace.bytes, logits + 4 * 2 * 4096 * 4096);
  }
}

TEST(MemoryEstimate, NumbersAreConsistentForAnyLayout) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    const test::RandomRun run = test::random_run(seed);
    MemoryRequest request;
    request.model = run.model;
    request.layout = run.layout;
    request.batch = {.global_batch_size = 2 * run.layout.dp * run.layout.pp, .seq_len = 12};
    request.compute_dtype = seed % 2 == 0 ? DType::kF32 : DType::kBF16;
    const MemoryEstimate estimate = estimate_memory(request);
    ASSERT_EQ(static_cast<int>(estimate.stages.size()), run.layout.pp);
    int64_t elements = 0;
    for (const StageMemory& stage : estimate.stages) {
      const int64_t sum = states(stage) + stage.activations.bytes + stage.workspace.bytes;
      ASSERT_LE(stage.total.bytes, sum);
      ASSERT_GE(stage.total.bytes, states(stage) + stage.activations.bytes);
      ASSERT_LE(stage.total.bytes, estimate.largest().total.bytes);
      ASSERT_GE(stage.late_send_bytes, 0);
      ASSERT_TRUE(run.layout.pp > 1 || stage.late_send_bytes == 0);
      for (const MemoryNumber& number :
           {stage.weights, stage.gradients, stage.optimizer, stage.activations, stage.comm,
            stage.workspace, stage.total}) {
        ASSERT_FALSE(number.source.empty());
      }
      elements += stage.elements;
    }
    ASSERT_GE(elements * run.layout.tp,
              count_parameters(make_parameter_table(run.model, {.tp = run.layout.tp})));
  }
}

TEST(MemoryEstimate, RecomputationAndShardingNeverCostMemory) {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    const test::RandomRun run = test::random_run(seed);
    MemoryRequest request;
    request.model = run.model;
    request.layout = run.layout;
    request.batch = {.global_batch_size = 2 * run.layout.dp * run.layout.pp, .seq_len = 12};
    int64_t before = std::numeric_limits<int64_t>::max();
    for (const Recompute mode : {Recompute::kNone, Recompute::kSelective, Recompute::kFull}) {
      request.layout.recompute = mode;
      const int64_t activations = estimate_memory(request).stages.front().activations.bytes;
      ASSERT_LE(activations, before);
      before = activations;
    }
    request.layout.zero = 0;
    const int64_t whole = estimate_memory(request).stages.back().optimizer.bytes;
    request.layout.zero = 1;
    ASSERT_EQ(estimate_memory(request).stages.back().optimizer.bytes * run.layout.dp, whole);
  }
}

// The largest numbers that validation lets through saturate instead of overflowing.
TEST(MemoryEstimate, SaturatesOnAbsurdSizes) {
  MemoryRequest request = large("dp1", DType::kF32);
  request.model.num_layers = 4096;
  request.model.ffn_hidden_size = int64_t{1} << 22;
  request.model.vocab_size = int64_t{1} << 28;
  request.batch = {.global_batch_size = 1, .seq_len = int64_t{1} << 31};
  const StageMemory stage = estimate_memory(request).largest();
  EXPECT_EQ(stage.activations.bytes, std::numeric_limits<int64_t>::max());
  EXPECT_EQ(stage.total.bytes, std::numeric_limits<int64_t>::max());
}

}  // namespace
}  // namespace plait
