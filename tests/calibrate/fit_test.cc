#include "calibrate/fit.h"

#include <gtest/gtest.h>

namespace plait {
namespace {

TEST(Fit, FindsTheTermsOfExactTimes) {
  std::vector<FitPoint> points;
  for (const double volume : {1e3, 1e4, 1e5, 1e6, 1e7}) {
    points.push_back({{volume, 1}, 2e-9 * volume + 3e-6});
  }
  const std::vector<double> fit = fit_nonnegative(points);
  EXPECT_NEAR(fit[0], 2e-9, 2e-11);
  EXPECT_NEAR(fit[1], 3e-6, 3e-8);
  EXPECT_LT(worst_relative_error(points, fit), 0.01);
}

TEST(Fit, LeavesOutWhatWouldBeNegative) {
  // The line through these points cuts the axis below zero.
  const std::vector<FitPoint> points = {{{1, 1}, 1}, {{2, 1}, 3}, {{3, 1}, 5}};
  const std::vector<double> fit = fit_nonnegative(points);
  EXPECT_GT(fit[0], 1);
  EXPECT_EQ(fit[1], 0);
  EXPECT_GT(worst_relative_error(points, fit), 0.1);
}

}  // namespace
}  // namespace plait
