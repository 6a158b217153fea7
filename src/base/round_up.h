// Whole units of a size. Requires everywhere: value >= 0, unit >= 1.
#pragma once

#include <cstdint>

namespace plait {

// How many units hold `value`.
constexpr int64_t divide_up(int64_t value, int64_t unit) {
  return (value + unit - 1) / unit;
}

// The smallest multiple of `unit` that is at least `value`.
constexpr int64_t round_up(int64_t value, int64_t unit) {
  return divide_up(value, unit) * unit;
}

}  // namespace plait
