// Which of many layouts a scatter plot shows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace plait {

struct ScatterValue {
  double peak_bytes = 0;
  double seconds = 0;
};

struct ScatterChoice {
  size_t index = 0;
  bool frontier = false;  // no other value has less of one and no more of the other
};

// The frontier and an even choice of the others, at most `most` beside it, by ascending peak.
// Deterministic.
std::vector<ScatterChoice> choose_scatter(std::span<const ScatterValue> values, size_t most);

}  // namespace plait
