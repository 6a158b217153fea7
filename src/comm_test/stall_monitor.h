// Notices that this process did not run: it was stopped, or its host has no core for it.
#pragma once

#include <memory>

namespace plait {

// Measures from its construction on, on a thread of its own. Thread-safe.
class StallMonitor {
 public:
  StallMonitor();
  ~StallMonitor();
  StallMonitor(const StallMonitor&) = delete;
  StallMonitor& operator=(const StallMonitor&) = delete;

  // Share of the time in gaps of 50 ms and more.
  double stalled_share() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace plait
