// Tasks of unequal length over a thread pool.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/thread_pool.h"

namespace plait::cpu::fast {

// Calls body(i) once for each i in [0, count); idle threads take the next one. Requires: the tasks
// write to disjoint places, so that the result does not depend on who ran what.
template <typename Body>
void parallel_tasks(ThreadPool& pool, int64_t count, const Body& body) {
  std::atomic<int64_t> next{0};
  const auto work = [&](int64_t /*begin*/, int64_t /*end*/) {
    for (int64_t i = next.fetch_add(1); i < count; i = next.fetch_add(1)) {
      body(i);
    }
  };
  // One call per thread, or on the caller alone when there is one task.
  pool.parallel_for(count < pool.num_threads() ? count : pool.num_threads(), 1, work);
}

}  // namespace plait::cpu::fast
