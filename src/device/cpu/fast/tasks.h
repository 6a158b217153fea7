// Tasks of unequal length over a thread pool.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>

#include "base/thread_pool.h"

namespace plait::cpu::fast {

// Calls body(i) once for each i in [0, count). Each thread begins with a share of tasks side by
// side, in order, so that what a task fetches ahead is its own thread's next task; a thread that
// is done goes on with what is left of the others' shares. Requires: the tasks write to disjoint
// places, so that the result does not depend on who ran what.
template <typename Body>
void parallel_tasks(ThreadPool& pool, int64_t count, const Body& body) {
  struct alignas(64) Share {
    std::atomic<int64_t> next{0};
    int64_t end = 0;
  };
  constexpr int64_t kMostShares = 64;
  std::array<Share, kMostShares> shares;
  const int64_t parts = std::min<int64_t>({pool.num_threads(), count, kMostShares});
  for (int64_t p = 0; p < parts; ++p) {
    Share& share = shares[static_cast<size_t>(p)];
    share.next = count * p / parts;
    share.end = count * (p + 1) / parts;
  }
  const auto work = [&](int64_t thread, int64_t /*end*/) {
    for (int64_t p = 0; p < parts; ++p) {
      Share& share = shares[static_cast<size_t>((thread + p) % parts)];
      for (int64_t i = share.next.fetch_add(1); i < share.end; i = share.next.fetch_add(1)) {
        body(i);
      }
    }
  };
  // One call per thread, or on the caller alone when there is one task.
  pool.parallel_for(std::min<int64_t>(count, pool.num_threads()), 1, work);
}

}  // namespace plait::cpu::fast
