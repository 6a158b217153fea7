#include "plan/pipeline_sim.h"

#include <random>

#include <gtest/gtest.h>

namespace plait {
namespace {

PipelineCosts even_costs(int stages, double forward, double backward) {
  PipelineCosts costs;
  costs.virtual_stages.assign(static_cast<size_t>(stages), {forward, backward});
  costs.send_blocks = false;
  return costs;
}

// Narayanan et al. 2021, section 2.2: the bubble is (p - 1) / m of the ideal time, divided by v
// when interleaved.
TEST(PipelineSim, BubbleOfEvenStages) {
  for (const int pp : {1, 2, 4, 8}) {
    for (const int m : {8, 16, 32}) {
      for (const auto kind : {ScheduleKind::kGpipe, ScheduleKind::kOneFOneB}) {
        const PipelineResult result = simulate_pipeline(
            {.kind = kind, .pp = pp, .vpp = 1, .num_microbatches = m}, even_costs(pp, 1, 2));
        EXPECT_DOUBLE_EQ(result.seconds, 3.0 * (m + pp - 1)) << pp << " " << m;
      }
      for (const int vpp : {2, 4}) {
        if (pp == 1) {
          continue;
        }
        const PipelineResult result = simulate_pipeline(
            {.kind = ScheduleKind::kInterleaved, .pp = pp, .vpp = vpp, .num_microbatches = m},
            even_costs(pp * vpp, 1.0 / vpp, 2.0 / vpp));
        EXPECT_NEAR(result.seconds, 3.0 * (m + (pp - 1.0) / vpp), 1e-9) << pp << " " << m;
      }
    }
  }
}

// Qi et al. 2023, table 2: the bubble of ZB-H1 is (p - 1) (F + B - W), B and W the halves of
// backward.
TEST(PipelineSim, ZeroBubbleH1) {
  for (const int pp : {2, 4, 8}) {
    PipelineCosts costs = even_costs(pp, 1, 2);
    for (VirtualStageCost& stage : costs.virtual_stages) {
      stage.weight_gradient = 1;
    }
    for (const int m : {8, 16, 33}) {
      const PipelineResult result = simulate_pipeline(
          {.kind = ScheduleKind::kZeroBubbleH1, .pp = pp, .num_microbatches = m}, costs);
      EXPECT_DOUBLE_EQ(result.seconds, 3.0 * m + (pp - 1)) << pp << " " << m;
    }
  }
}

TEST(PipelineSim, SlowestStageDecides) {
  PipelineCosts costs = even_costs(4, 1, 2);
  costs.virtual_stages[3] = {2, 4};  // the head
  const PipelineResult result = simulate_pipeline({.pp = 4, .num_microbatches = 100}, costs);
  EXPECT_DOUBLE_EQ(result.seconds, 100 * 6 + 3 * 3);
  EXPECT_DOUBLE_EQ(result.stage_busy[3], 600);
  EXPECT_DOUBLE_EQ(result.stage_busy[0], 300);
}

TEST(PipelineSim, MessagesTakeTime) {
  PipelineCosts costs = even_costs(2, 1, 2);
  costs.send_s = 0.5;
  EXPECT_DOUBLE_EQ(simulate_pipeline({.pp = 2, .num_microbatches = 1}, costs).seconds, 7);
}

TEST(PipelineSim, TimelineHasEveryAction) {
  const PipelineResult result =
      simulate_pipeline({.pp = 4, .num_microbatches = 6}, even_costs(4, 1, 2), true);
  EXPECT_EQ(result.timeline.size(), size_t{2 * 4 * 6});
  for (const TimelineEntry& entry : result.timeline) {
    EXPECT_DOUBLE_EQ(entry.end - entry.begin, entry.forward ? 1 : 2);
  }
}

TEST(PipelineSim, NothingBeatsTheBound) {
  std::mt19937 rng(7);
  std::uniform_real_distribution<double> uniform;
  const auto below = [&rng](unsigned n) { return static_cast<int>(rng() % n); };
  for (int round = 0; round < 300; ++round) {
    const int pp = 1 + below(6);
    const int vpp = pp > 1 ? 1 + below(3) : 1;
    const int m = pp * (1 + below(5));
    const ScheduleKind kinds[] = {ScheduleKind::kGpipe, ScheduleKind::kOneFOneB,
                                  ScheduleKind::kZeroBubbleH1};
    const ScheduleKind kind = vpp > 1 ? ScheduleKind::kInterleaved : kinds[below(3)];
    PipelineCosts costs;
    for (int v = 0; v < pp * vpp; ++v) {
      costs.virtual_stages.push_back({0.1 + uniform(rng), 0.1 + 2 * uniform(rng)});
    }
    for (VirtualStageCost& stage : costs.virtual_stages) {
      stage.weight_gradient = stage.backward * uniform(rng);
    }
    costs.send_s = 0.2 * uniform(rng);
    costs.send_blocks = below(2) == 0;
    const ScheduleOptions options{.kind = kind, .pp = pp, .vpp = vpp, .num_microbatches = m};
    EXPECT_LE(pipeline_lower_bound(options, costs),
              simulate_pipeline(options, costs).seconds + 1e-9)
        << pp << " " << vpp << " " << m;
  }
}

}  // namespace
}  // namespace plait
