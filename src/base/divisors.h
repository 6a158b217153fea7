// Divisors of a whole number.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace plait {

// Those of `value` up to `most`, ascending.
inline std::vector<int64_t> divisors(int64_t value, int64_t most) {
  std::vector<int64_t> list;
  for (int64_t d = 1; d <= std::min(value, most); ++d) {
    if (value % d == 0) {
      list.push_back(d);
    }
  }
  return list;
}

}  // namespace plait
