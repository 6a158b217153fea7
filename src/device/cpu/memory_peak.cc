#include "device/cpu/memory_peak.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "base/clock.h"
#include "device/cpu/host_memory.h"

namespace plait::cpu {
namespace {

constexpr int64_t kLine = 64;

// Reads `lines` cache lines as kStreams sequences side by side, each prefetched.
template <int kStreams>
uint64_t read_lines(const std::byte* block, int64_t lines) {
  constexpr int64_t kAhead = 32 * kLine;
  const int64_t stream_bytes = lines / kStreams * kLine;
  std::array<uint64_t, 8> sums{};
  for (int64_t at = 0; at < stream_bytes; at += kLine) {
    for (int s = 0; s < kStreams; ++s) {
      const std::byte* line = block + s * stream_bytes + at;
      __builtin_prefetch(line + kAhead);
      std::array<uint64_t, 8> words;
      std::memcpy(words.data(), line, sizeof(words));
      for (size_t i = 0; i < words.size(); ++i) {
        sums[i] += words[i];
      }
    }
  }
  uint64_t sum = 0;
  for (const uint64_t x : sums) {
    sum += x;
  }
  return sum;
}

}  // namespace

ReadBandwidth measure_read_bandwidth(ThreadPool& pool) {
  constexpr int64_t kBytes = int64_t{512} << 20;  // far above any cache
  constexpr double kSeconds = 0.6;
  HostMemory memory;
  std::byte* block = memory.acquire(kBytes);
  pool.parallel_for(kBytes, int64_t{2} << 20, [&](int64_t begin, int64_t end) {
    std::memset(block + begin, 1, static_cast<size_t>(end - begin));
  });
  std::vector<uint64_t> sums(static_cast<size_t>(pool.num_threads()));
  double best_s = 1e30;
  std::array<double, 2> total_s{};  // of the passes of either kind
  std::array<int, 2> passes{};
  const double end_s = now_s() + kSeconds;
  for (int i = 0; i < 4 || now_s() < end_s; ++i) {
    const double begin_s = now_s();
    pool.run([&](int thread) {
      const int64_t lines = kBytes / kLine / pool.num_threads();
      const std::byte* part = block + thread * lines * kLine;
      // What a memory likes best differs: one long sequence or several.
      sums[static_cast<size_t>(thread)] +=
          i % 2 == 0 ? read_lines<1>(part, lines) : read_lines<4>(part, lines);
    });
    const double pass_s = now_s() - begin_s;
    best_s = std::min(best_s, pass_s);
    total_s[static_cast<size_t>(i % 2)] += pass_s;
    ++passes[static_cast<size_t>(i % 2)];
  }
  volatile uint64_t used = 0;  // the reads must happen
  for (const uint64_t sum : sums) {
    used = used + sum;
  }
  memory.release(block, kBytes);
  const double mean_s = std::min(total_s[0] / passes[0], total_s[1] / passes[1]);
  return {static_cast<double>(kBytes) / best_s, static_cast<double>(kBytes) / mean_s};
}

}  // namespace plait::cpu
