#include "base/watchdog.h"

#include <chrono>
#include <utility>

namespace plait {

Watchdog::Watchdog(double limit_s, std::function<void()> late)
    : thread_([this, limit_s, late = std::move(late)] {
        std::unique_lock lock(mutex_);
        if (!ended_.wait_for(lock, std::chrono::duration<double>(limit_s),
                             [this] { return done_; })) {
          late();
        }
      }) {}

Watchdog::~Watchdog() {
  {
    const std::scoped_lock lock(mutex_);
    done_ = true;
    ended_.notify_all();
  }
  thread_.join();
}

}  // namespace plait
