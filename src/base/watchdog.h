// A limit on how long something may take.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace plait {

// Calls `late` once, from a thread of its own, if the watchdog still lives after `limit_s` seconds.
// The destructor waits for a call that has begun.
class Watchdog {
 public:
  Watchdog(double limit_s, std::function<void()> late);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

 private:
  std::mutex mutex_;
  std::condition_variable ended_;
  bool done_ = false;
  std::thread thread_;  // last: it uses the others
};

}  // namespace plait
