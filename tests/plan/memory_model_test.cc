#include <cmath>

#include <gtest/gtest.h>

#include "plan/closed_forms.h"
#include "plan/estimate.h"
#include "plan/layer_work.h"
#include "plan/memory_model.h"
#include "plan/plan_jobs.h"
#include "plan/stack_rules.h"
#include "spec/parameter_table.h"
#include "spec/schedule.h"

namespace plait {
namespace {

constexpr double kGiB = 1024.0 * 1024 * 1024;

Chip big_chip() {
  Chip chip;
  chip.memory_bytes.value = 1e12;
  return chip;
}

struct Figure1 {
  int64_t layers, hidden, heads;
  int pp, vpp;
  int64_t micro_batch;
  double states, baseline, selective;  // GiB, the paper's
  double table_states;                 // GiB, from the parameter table
};

// Korthikanti et al. 2022, figure 1 (GiB on one of the tp 8 ranks of the first stage).
const std::vector<Figure1>& figure1() {
  static const std::vector<Figure1> rows = {
      {48, 6144, 64, 1, 1, 4, 45.5625, 59.25, 9.5625, 46.26},
      {96, 12288, 96, 8, 3, 1, 45.5625, 66.84375, 12.3515625, 45.74},
      {105, 20480, 128, 35, 3, 1, 31.640625, 114.0234375, 23.076171875, 31.71},
      {128, 25600, 160, 64, 1, 1, 32.958984375, 131.25, 26.5625, 33.01},
  };
  return rows;
}

TEST(MemoryModel, PapersClosedFormIsExact) {
  for (const Figure1& row : figure1()) {
    const PaperShape shape{.layers = row.layers,
                           .hidden = row.hidden,
                           .heads = row.heads,
                           .seq = 2048,
                           .micro_batch = row.micro_batch,
                           .tp = 8,
                           .pp = row.pp,
                           .vpp = row.vpp};
    EXPECT_DOUBLE_EQ(paper_state_bytes(shape) / kGiB, row.states);
    EXPECT_DOUBLE_EQ(paper_activation_bytes(shape) / kGiB, row.baseline);
    EXPECT_DOUBLE_EQ(paper_selective_bytes(shape) / kGiB, row.selective);
  }
}

// The paper leaves out embeddings, biases and norms, and divides evenly: with them, 18 bytes times
// the table's total over tp x pp give a little more; the first stage, which holds the embedding,
// the positions and unsplit norms, more than that.
TEST(MemoryModel, OwnFigureFromParameterTables) {
  for (const Figure1& row : figure1()) {
    TrainJob job = gpt_job(row.layers, row.hidden, row.heads);
    const auto total = static_cast<double>(count_parameters(make_parameter_table(job.model, {})));
    EXPECT_NEAR(total * 18 / (8 * row.pp) / kGiB, row.table_states, 0.005) << row.layers;
    job.layout.tp = 8;
    job.layout.pp = row.pp;
    job.layout.sp = true;
    job.batch.global_batch_size = row.pp * row.micro_batch;
    job.batch.micro_batch_size = row.micro_batch;
    const auto stages = estimate_job_memory(job, big_chip());
    double sum = 0;
    for (const StageMemoryPlan& stage : stages) {
      sum += stage.bytes.states() / kGiB;
    }
    EXPECT_GT(stages.front().bytes.states() / kGiB, row.table_states);
    EXPECT_NEAR(sum / row.pp, row.table_states, 0.03 * row.table_states);
  }
}

// Table 2 of the paper against the operators' own list.
TEST(MemoryModel, ActivationsOfTable2) {
  TrainJob job = gpt_job(1, 6144, 64);
  job.batch.micro_batch_size = 4;
  const double sbh = 2048.0 * 4 * 6144;
  const double scores = 5.0 * 64 * 2048 / 6144;
  EXPECT_NEAR(layer_work(job, LayerType::kDense).saved_bytes(Recompute::kNone) / sbh, 34 + scores,
              0.01);
  job.layout.tp = 8;
  EXPECT_NEAR(layer_work(job, LayerType::kDense).saved_bytes(Recompute::kNone) / sbh,
              10 + 24.0 / 8 + scores / 8, 0.01);
  job.layout.sp = true;
  EXPECT_NEAR(layer_work(job, LayerType::kDense).saved_bytes(Recompute::kNone) / sbh,
              (34 + scores) / 8, 0.01);
  EXPECT_NEAR(layer_work(job, LayerType::kDense).saved_bytes(Recompute::kSelective) / sbh, 34.0 / 8,
              0.01);
}

TEST(MemoryModel, ZeroBubbleHoldsAsManyAsTheFirstStage) {
  TrainJob job = small_job();
  job.layout.pp = 4;
  job.layout.schedule = ScheduleKind::kZeroBubbleH1;
  const auto schedule = make_schedule(
      {.kind = ScheduleKind::kZeroBubbleH1, .pp = 4, .vpp = 1, .num_microbatches = 32});
  for (const StageMemoryPlan& stage : estimate_job_memory(job, big_chip())) {
    EXPECT_EQ(stage.max_in_flight, 4);
    EXPECT_EQ(max_in_flight_total(schedule[static_cast<size_t>(stage.stage)]), 4);
  }
}

TEST(MemoryModel, InFlightIsTheSchedules) {
  for (const int pp : {1, 2, 3, 4, 8}) {
    for (const int vpp : {1, 2, 3}) {
      for (const int rounds : {1, 2, 5}) {
        if (vpp > 1 && pp == 1) {
          continue;
        }
        TrainJob job = small_job();
        job.model.num_layers = int64_t{pp} * vpp;
        job.layout.pp = pp;
        job.layout.vpp = vpp;
        job.layout.schedule = vpp > 1 ? ScheduleKind::kInterleaved : ScheduleKind::kOneFOneB;
        job.batch.global_batch_size = int64_t{pp} * rounds;
        const auto schedule = make_schedule(
            {.kind = job.layout.schedule, .pp = pp, .vpp = vpp, .num_microbatches = pp * rounds});
        for (const StageMemoryPlan& stage : estimate_job_memory(job, big_chip())) {
          EXPECT_EQ(stage.max_in_flight,
                    max_in_flight_total(schedule[static_cast<size_t>(stage.stage)]))
              << "pp " << pp << " vpp " << vpp << " rounds " << rounds << " stage " << stage.stage;
        }
      }
    }
  }
}

// Bytes per parameter of docs/user-guide/features/dist_optimizer.md of Megatron.
TEST(MemoryModel, BytesPerParameter) {
  struct Case {
    DType dtype;
    int zero;
    double whole, sharded;
  };
  for (const Case& c :
       {Case{DType::kBF16, 0, 18, 0}, Case{DType::kBF16, 1, 6, 12}, Case{DType::kF16, 0, 20, 0},
        Case{DType::kF16, 1, 4, 16}, Case{DType::kF32, 0, 16, 0}, Case{DType::kF32, 1, 8, 8}}) {
    TrainJob job = small_job();
    job.dtype = c.dtype;
    job.layout.zero = c.zero;
    const StateBytes s = state_bytes(job);
    EXPECT_EQ(s.weights.whole + s.gradients.whole + s.optimizer.whole, c.whole);
    EXPECT_EQ(s.weights.sharded + s.gradients.sharded + s.optimizer.sharded, c.sharded);
  }
  TrainJob job = small_job();
  job.stack = Stack::kDeepSpeed;
  for (const int zero : {0, 1, 2, 3}) {
    job.layout.zero = zero;
    const StateBytes s = state_bytes(job);
    const double sharded = s.weights.sharded + s.gradients.sharded + s.optimizer.sharded;
    EXPECT_EQ(sharded, zero == 0 ? 0 : zero == 1 ? 12 : zero == 2 ? 14 : 16);
    EXPECT_EQ(s.weights.whole + s.gradients.whole + s.optimizer.whole, 16 - sharded);
  }
}

TEST(MemoryModel, FitIsARange) {
  TrainJob job = small_job();
  const StageMemoryPlan stage = estimate_job_memory(job, big_chip()).front();
  Chip chip = big_chip();
  chip.memory_bytes.value = stage.peak.high + 1;
  EXPECT_EQ(estimate_job_memory(job, chip).front().fit, Fit::kFits);
  chip.memory_bytes.value = stage.peak.high - 1;
  EXPECT_EQ(estimate_job_memory(job, chip).front().fit, Fit::kTight);
  chip.memory_bytes.value = stage.peak.low - 1;
  EXPECT_EQ(estimate_job_memory(job, chip).front().fit, Fit::kDoesNotFit);
  EXPECT_LE(stage.peak.low, stage.peak.best);
  EXPECT_LE(stage.peak.best, stage.peak.high);
}

TEST(MemoryModel, LogitsAreOnTheLastStage) {
  TrainJob job = small_job();
  job.layout.pp = 4;
  const auto stages = estimate_job_memory(job, big_chip());
  EXPECT_EQ(stages[0].bytes.logits, 0);
  EXPECT_GT(stages[3].bytes.logits, 2048.0 * 32000 * 4);
}

}  // namespace
}  // namespace plait
