// fp16 with loss scaling under layouts, against one rank in fp16: the same losses, and one decision
// about the scale on all ranks.
#include <gtest/gtest.h>

#include <cmath>
#include <mutex>

#include "train/small_run.h"

namespace plait {
namespace {

// Of the loss, relative, in the worst of 20 steps. Measured on AVX2: at most 1.3e-4, with tp
// (3.5e-5 without). The limit is three times that.
constexpr double kAgainstFp16 = 4e-4;

struct ScaledRun {
  SmallResult result;
  std::map<int, std::vector<double>> scales;  // of each rank, after each step
};

ScaledRun run_scaled(SmallRun run, const LossScale& first) {
  run.dtype = DType::kF16;
  ScaledRun scaled;
  std::mutex mutex;
  run.after_step = [&](Engine& engine, int step) {
    if (step == 0) {
      engine.set_loss_scale(first);
      return;
    }
    const std::scoped_lock lock(mutex);
    scaled.scales[engine.context().all().rank()].push_back(engine.loss_scale().scale);
  };
  scaled.result = run_small(run);
  return scaled;
}

std::vector<SmallRun> layouts() {
  return {
      {.layout = "dp2.zero1"},
      {.layout = "tp4.sp", .tied = false},
      {.layout = "pp2.vpp2", .schedule = ScheduleKind::kInterleaved},
      {.layout = "dp2.tp2.pp2.sp.zero1", .recompute = Recompute::kFull, .tied = false},
  };
}

class Fp16Parity : public testing::TestWithParam<SmallRun> {};

TEST_P(Fp16Parity, StaysCloseToOneRank) {
  // Doubled at step 10.
  const LossScale first = {.scale = 1024, .good_steps = LossScale::kGrowthInterval - 10};
  const ScaledRun one = run_scaled({.tied = GetParam().tied}, first);
  const ScaledRun actual = run_scaled(GetParam(), first);
  const double error = worst_loss_error(one.result, actual.result);
  EXPECT_LE(error, kAgainstFp16);
  RecordProperty("against_fp16", std::to_string(error));
  for (const auto& [rank, scales] : actual.scales) {
    EXPECT_EQ(scales, one.scales.at(0)) << "rank " << rank;
  }
  EXPECT_EQ(one.scales.at(0)[8], 1024);
  EXPECT_EQ(one.scales.at(0)[9], 2048);
  for (const double norm : actual.result.norms) {
    EXPECT_TRUE(std::isfinite(norm)) << norm;
  }
}

// The gradient of the logits alone leaves the range at first.
TEST_P(Fp16Parity, RanksAgreeOnOverflows) {
  const ScaledRun run = run_scaled(GetParam(), {.scale = LossScale::kScaleMax});
  const std::vector<double>& scales = run.scales.at(0);
  for (const auto& [rank, theirs] : run.scales) {
    EXPECT_EQ(theirs, scales) << "rank " << rank;
  }
  double before = LossScale::kScaleMax;
  for (size_t i = 0; i < scales.size(); ++i) {
    EXPECT_TRUE(std::isfinite(run.result.losses[i])) << "step " << i + 1;
    const bool overflow = !std::isfinite(run.result.norms[i]);
    EXPECT_EQ(scales[i], overflow ? before / 2 : before) << "step " << i + 1;
    before = scales[i];
  }
  EXPECT_LT(scales.front(), LossScale::kScaleMax);
  RecordProperty("last_scale", std::to_string(scales.back()));
  EXPECT_TRUE(std::isfinite(run.result.norms.back()));
}

INSTANTIATE_TEST_SUITE_P(Layouts, Fp16Parity, testing::ValuesIn(layouts()),
                         [](const testing::TestParamInfo<SmallRun>& param) {
                           return small_run_name(param.param);
                         });

}  // namespace
}  // namespace plait
