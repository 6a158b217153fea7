// Every layout gives the training run of one rank: losses, gradient norms and the gradients of the
// first step; the same layout twice gives the same bits.
#include <gtest/gtest.h>

#include "train/small_run.h"

namespace plait {
namespace {

const SmallResult& reference(bool tied) {
  static const SmallResult tied_run = run_small({.tied = true});
  static const SmallResult untied_run = run_small({.tied = false});
  return tied ? tied_run : untied_run;
}

std::vector<SmallRun> layouts() {
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

class Parity : public testing::TestWithParam<SmallRun> {};

TEST_P(Parity, MatchesOneRank) {
  const SmallResult actual = run_small(GetParam());
  expect_f32_parity(reference(GetParam().tied), actual);
  expect_identical(actual, run_small(GetParam()));
}

INSTANTIATE_TEST_SUITE_P(Layouts, Parity, testing::ValuesIn(layouts()),
                         [](const testing::TestParamInfo<SmallRun>& param) {
                           return small_run_name(param.param);
                         });

TEST(ParityReference, TheLossFalls) {
  const SmallResult& run = reference(true);
  EXPECT_LT(run.losses.back(), run.losses.front());
}

}  // namespace
}  // namespace plait
