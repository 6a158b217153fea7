#include "serve/admission.h"

#include <gtest/gtest.h>

#include "serve/step_pace.h"

namespace plait {
namespace {

// A machine whose steps take `per_stream_s` for each running stream.
int64_t settle(AdmissionControl& control, double per_stream_s, int64_t offered) {
  static double now_s = 1;  // goes on
  for (int step = 0; step < 4000; ++step) {
    const int64_t running = std::min(offered, control.limit());
    const double seconds = per_stream_s * static_cast<double>(running);
    now_s += seconds;
    control.record_step_of_decodes(seconds);
    control.update(now_s, running);
  }
  return control.limit();
}

TEST(AdmissionControl, FindsTheConcurrencyOfTheTarget) {
  AdmissionControl control({.most = 64, .target_ttft_s = 0, .target_tpot_s = 0.1});
  const int64_t slow = settle(control, 0.01, 100);  // ten streams are the most
  EXPECT_GE(slow, 6);
  EXPECT_LE(slow, 11);
  const int64_t slower = settle(control, 0.05, 100);
  EXPECT_LE(slower, 3);
  EXPECT_GE(slower, 1);
  EXPECT_GT(settle(control, 0.005, 100), 12);
}

TEST(AdmissionControl, WithoutATargetOrLoadNothingMoves) {
  AdmissionControl fixed({.most = 64});
  EXPECT_EQ(settle(fixed, 1, 100), 64);
  AdmissionControl unused({.most = 64, .target_ttft_s = 0, .target_tpot_s = 0.1});
  EXPECT_EQ(settle(unused, 0.001, 1), 2);
}

TEST(StepPace, CutsPromptsToTheGap) {
  StepPace pace({.max_gap_s = 0.3, .most_rows = 512});
  EXPECT_EQ(pace.prompt_rows_beside(), 512);
  for (int i = 0; i < 50; ++i) {
    pace.record({.decode_rows = 4, .prompt_rows = 0, .seconds = 0.05});
    pace.record({.decode_rows = 4, .prompt_rows = 100, .seconds = 0.05 + 100 * 0.005});
  }
  EXPECT_NEAR(static_cast<double>(pace.prompt_rows_beside()), 0.25 / 0.005, 1.5);
  EXPECT_NEAR(static_cast<double>(pace.prompt_rows_alone()), 2 / 0.005, 10);
  for (int i = 0; i < 50; ++i) {
    pace.record({.decode_rows = 0, .prompt_rows = 16, .seconds = 16});
  }
  EXPECT_EQ(pace.prompt_rows_beside(), StepPace::kLeastRows);
}

TEST(StepPace, PromptsGetAheadBesideSlowSteps) {
  StepPace pace({.max_gap_s = 0.15, .most_rows = 512});
  for (int i = 0; i < 50; ++i) {
    pace.record({.decode_rows = 4, .prompt_rows = 0, .seconds = 0.1});
    pace.record({.decode_rows = 4, .prompt_rows = 100, .seconds = 0.1 + 100 * 0.005});
  }
  // Four steps of 0.1 s, less the one that the streams take.
  EXPECT_NEAR(static_cast<double>(pace.prompt_rows_beside()), 0.3 / 0.005, 1.5);
}

}  // namespace
}  // namespace plait
