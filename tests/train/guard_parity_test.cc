// The guard device, whose streams are asynchronous and whose memory faults when the host touches
// it, gives the training run of one rank of the cpu device.
#include <gtest/gtest.h>

#include <cstdlib>

#include "train/golden.h"
#include "train/small_run.h"

namespace plait {
namespace {

constexpr int kSteps = 6;

const SmallResult& reference(bool tied) {
  static const SmallResult tied_run = run_small({.tied = true, .steps = kSteps});
  static const SmallResult untied_run = run_small({.tied = false, .steps = kSteps});
  return tied ? tied_run : untied_run;
}

std::vector<SmallRun> layouts() {
  using enum ScheduleKind;
  std::vector<SmallRun> runs = {
      {.layout = "dp1"},
      {.layout = "dp1", .recompute = Recompute::kFull, .tied = false},
      {.layout = "dp4.zero1", .bucket_count = 200},
      {.layout = "dp2", .tied = false, .overlap = false},
      {.layout = "tp2.sp", .recompute = Recompute::kSelective},
      {.layout = "tp4", .tied = false},
      {.layout = "pp4"},
      {.layout = "pp2", .stage_layers = {3, 1}, .recompute = Recompute::kFull, .schedule = kGpipe},
      {.layout = "pp2.vpp2", .schedule = kInterleaved, .tied = false},
      {.layout = "dp2.tp2.pp2.sp.zero1"},
      {.layout = "dp2.tp2.pp2.sp.zero1", .recompute = Recompute::kSelective, .tied = false},
      {.layout = "dp2.pp2.vpp2.zero1", .schedule = kInterleaved, .vocab_multiple = 16},
  };
  for (SmallRun& run : runs) {
    run.device = "guard";
    run.steps = kSteps;
  }
  return runs;
}

class GuardParity : public testing::TestWithParam<SmallRun> {};

TEST_P(GuardParity, MatchesOneRank) {
  const SmallResult actual = run_small(GetParam());
  expect_f32_parity(reference(GetParam().tied), actual);
  // The kernels are the same ones, and the order of every sum is fixed.
  SmallRun on_cpu = GetParam();
  on_cpu.device = "cpu";
  expect_identical(actual, run_small(on_cpu));
}

INSTANTIATE_TEST_SUITE_P(Layouts, GuardParity, testing::ValuesIn(layouts()),
                         [](const testing::TestParamInfo<SmallRun>& param) {
                           return small_run_name(param.param);
                         });

class GuardBf16 : public testing::TestWithParam<std::string> {};

TEST_P(GuardBf16, IsTheRunOnTheCpu) {
  SmallRun run{.layout = GetParam(), .device = "guard", .dtype = DType::kBF16, .steps = 3};
  const SmallResult actual = run_small(run);
  run.device = "cpu";
  expect_identical(actual, run_small(run));
}

INSTANTIATE_TEST_SUITE_P(Layouts, GuardBf16, testing::Values("dp1", "dp2.tp2.pp2.sp.zero1"),
                         [](const testing::TestParamInfo<std::string>& param) {
                           return small_run_name({.layout = param.param});
                         });

TEST(GuardGolden, AgreesWithTransformers) {
  VerifyOptions options;
  options.directory = std::string(std::getenv("PLAIT_TEST_DATA")) + "/goldens/tiny-qwen2";
  options.layout = parse_layout("dp2.tp2.pp2.sp.zero1");
  options.device = "guard";
  options.threads_per_rank = 1;
  options.deadline_s = 120;
  for (const GoldenPart& part : verify_golden(options).parts) {
    EXPECT_TRUE(part.passed()) << part.name << ": error " << part.error << ", limit " << part.limit;
  }
}

}  // namespace
}  // namespace plait
