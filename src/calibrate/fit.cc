#include "calibrate/fit.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace plait {
namespace {

double predict(const FitPoint& point, const std::vector<double>& coefficients) {
  double sum = 0;
  for (size_t j = 0; j < coefficients.size(); ++j) {
    sum += point.terms[j] * coefficients[j];
  }
  return sum;
}

}  // namespace

// Coordinate descent: the problem is convex and has two or three unknowns.
std::vector<double> fit_nonnegative(const std::vector<FitPoint>& points) {
  constexpr int kRounds = 5000;
  CHECK(!points.empty());
  const size_t n = points.front().terms.size();
  std::vector<double> x(n, 0);
  for (int round = 0; round < kRounds; ++round) {
    for (size_t j = 0; j < n; ++j) {
      double numerator = 0;
      double denominator = 0;
      for (const FitPoint& point : points) {
        const double scaled = point.terms[j] / point.seconds;
        const double rest = 1 - (predict(point, x) - point.terms[j] * x[j]) / point.seconds;
        numerator += scaled * rest;
        denominator += scaled * scaled;
      }
      x[j] = denominator > 0 ? std::max(0.0, numerator / denominator) : 0;
    }
  }
  return x;
}

double worst_relative_error(const std::vector<FitPoint>& points,
                            const std::vector<double>& coefficients) {
  double worst = 0;
  for (const FitPoint& point : points) {
    worst = std::max(worst, std::abs(predict(point, coefficients) / point.seconds - 1));
  }
  return worst;
}

}  // namespace plait
