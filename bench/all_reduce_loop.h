// How both all-reduce benchmarks measure: the best batch of back-to-back calls, per size.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>

#include "base/clock.h"

namespace plait::bench {

constexpr int64_t kMinBytes = 8;
constexpr int64_t kMaxBytes = int64_t{64} << 20;
constexpr int kBatches = 10;
constexpr double kBatchBytes = 16e6;  // the size of a batch: this much data, or kMaxCalls
constexpr int64_t kMaxCalls = 1000;

// Seconds a call of the best batch; every rank makes the same number of calls.
inline double best_call_s(int64_t bytes, const std::function<void()>& call) {
  const auto by_bytes = static_cast<int64_t>(kBatchBytes / static_cast<double>(bytes));
  const int64_t calls = std::clamp<int64_t>(by_bytes, 1, kMaxCalls);
  double best = 1e9;
  for (int batch = 0; batch < kBatches; ++batch) {
    const double start = now_s();
    for (int64_t i = 0; i < calls; ++i) {
      call();
    }
    best = std::min(best, (now_s() - start) / static_cast<double>(calls));
  }
  return best;
}

}  // namespace plait::bench
