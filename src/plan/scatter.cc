#include "plan/scatter.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace plait {

std::vector<ScatterChoice> choose_scatter(std::span<const ScatterValue> values, size_t most) {
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    const ScatterValue& x = values[a];
    const ScatterValue& y = values[b];
    if (x.peak_bytes != y.peak_bytes) {
      return x.peak_bytes < y.peak_bytes;
    }
    return x.seconds != y.seconds ? x.seconds < y.seconds : a < b;
  });
  std::vector<bool> frontier(order.size());
  size_t others = 0;
  double best = std::numeric_limits<double>::infinity();
  for (size_t i = 0; i < order.size(); ++i) {
    frontier[i] = values[order[i]].seconds < best;
    best = std::min(best, values[order[i]].seconds);
    others += frontier[i] ? 0 : 1;
  }
  std::vector<ScatterChoice> chosen;
  size_t seen = 0;
  for (size_t i = 0; i < order.size(); ++i) {
    bool kept = true;
    if (!frontier[i] && others > most) {
      // Every (others / most)-th of them.
      kept = (seen + 1) * most / others > seen * most / others;
    }
    seen += frontier[i] ? 0 : 1;
    if (kept) {
      chosen.push_back({order[i], frontier[i]});
    }
  }
  return chosen;
}

}  // namespace plait
