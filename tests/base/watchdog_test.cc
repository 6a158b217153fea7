#include "base/watchdog.h"

#include <atomic>
#include <future>

#include <gtest/gtest.h>

namespace plait {
namespace {

TEST(Watchdog, CallsOnceAfterTheLimit) {
  std::atomic<int> calls = 0;
  std::promise<void> called;
  {
    const Watchdog watchdog(0.001, [&] {
      ++calls;
      called.set_value();
    });
    called.get_future().wait();
  }
  EXPECT_EQ(calls, 1);
}

TEST(Watchdog, IsSilentIfDestroyedInTime) {
  std::atomic<int> calls = 0;
  {
    const Watchdog watchdog(3600, [&] { ++calls; });
  }
  EXPECT_EQ(calls, 0);
}

}  // namespace
}  // namespace plait
