// Least squares with few terms, none of which may be negative.
#pragma once

#include <vector>

namespace plait {

// One measurement: what each term contributes per unit of its coefficient, and the seconds.
struct FitPoint {
  std::vector<double> terms;
  double seconds = 0;
};

// Coefficients >= 0, one a term, that minimise the sum of squared relative errors: small and large
// measurements count alike. Requires: points, all with the same number of terms and seconds > 0.
std::vector<double> fit_nonnegative(const std::vector<FitPoint>& points);

// The largest relative error of a point under the coefficients.
double worst_relative_error(const std::vector<FitPoint>& points,
                            const std::vector<double>& coefficients);

}  // namespace plait
