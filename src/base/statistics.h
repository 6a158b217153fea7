// Order statistics of a few numbers.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>
#include <vector>

namespace plait {

// The value below which `share` of the others lie, no interpolation: the nearest rank. 0 for none.
inline double quantile(std::vector<double> values, double share) {
  if (values.empty()) {
    return 0;
  }
  const auto last = static_cast<double>(values.size() - 1);
  const auto nearest = values.begin() + std::lround(share * last);
  std::nth_element(values.begin(), nearest, values.end());
  return *nearest;
}

// Of an even number the upper of the two in the middle.
inline double median(std::vector<double> values) {
  return quantile(std::move(values), 0.5);
}

}  // namespace plait
