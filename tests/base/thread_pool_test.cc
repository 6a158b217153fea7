#include "base/thread_pool.h"

#include <atomic>
#include <vector>

#include <gtest/gtest.h>

namespace plait {
namespace {

TEST(ThreadPool, EveryIndexIsVisitedOnce) {
  for (const int threads : {1, 2, 3, 5}) {
    for (const double spin_us : {0.0, 50.0}) {
      ThreadPool pool({.num_threads = threads, .spin_us = spin_us});
      for (const int64_t count : {0, 1, 7, 64, 1001}) {
        std::vector<std::atomic<int>> visits(static_cast<size_t>(count));
        pool.parallel_for(count, 8, [&](int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end; ++i) {
            ++visits[static_cast<size_t>(i)];
          }
        });
        for (const auto& visit : visits) {
          EXPECT_EQ(visit.load(), 1);
        }
      }
    }
  }
}

TEST(ThreadPool, RunsManyLoopsInARow) {
  ThreadPool pool({.num_threads = 4, .spin_us = 5});
  std::atomic<int64_t> sum{0};
  for (int i = 0; i < 2000; ++i) {
    pool.run([&](int thread_index) { sum += thread_index; });
  }
  EXPECT_EQ(sum.load(), 2000 * 6);
}

}  // namespace
}  // namespace plait
