// Gradients by finite differences, for tests of backward code.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <vector>

#include "support/test_device.h"

namespace plait::test {

using Values = std::vector<double>;

inline Values to_double(const std::vector<float>& values) {
  return {values.begin(), values.end()};
}

inline std::vector<float> to_single(const Values& values) {
  std::vector<float> result;
  for (const double x : values) {
    result.push_back(static_cast<float>(x));
  }
  return result;
}

// d f / d x by central differences in double.
inline std::vector<float> numeric_gradient(const std::function<double(const Values&)>& f,
                                           Values x) {
  constexpr double kStep = 1e-5;
  std::vector<float> gradient;
  for (double& element : x) {
    const double saved = element;
    element = saved + kStep;
    const double up = f(x);
    element = saved - kStep;
    const double down = f(x);
    element = saved;
    gradient.push_back(static_cast<float>((up - down) / (2 * kStep)));
  }
  return gradient;
}

inline double weighted_sum(const Values& values, const std::vector<float>& weights) {
  double sum = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    sum += values[i] * weights[i];
  }
  return sum;
}

// Within 2e-5 of the largest element.
inline void expect_near(const std::vector<float>& actual, const std::vector<float>& expected) {
  EXPECT_LE(max_difference(actual, expected), 2e-5 * max_abs(expected) + 1e-7);
}

}  // namespace plait::test
