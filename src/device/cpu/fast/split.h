// How the fast kernels split their work.
#pragma once

#include <algorithm>
#include <cstdint>

namespace plait::cpu::fast {

// Elements that are worth waking a thread for: some microseconds of work.
constexpr int64_t kGrainElements = 16384;

// Rows of `cols` elements that make up one grain.
inline int64_t grain_rows(int64_t cols) {
  return std::max<int64_t>(1, kGrainElements / std::max<int64_t>(cols, 1));
}

}  // namespace plait::cpu::fast
