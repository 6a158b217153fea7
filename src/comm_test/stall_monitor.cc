#include "comm_test/stall_monitor.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "base/clock.h"

namespace plait {
namespace {

constexpr double kTickS = 5e-3;
// A busy host delays a thread by tens of milliseconds.
constexpr double kGapS = 50e-3;

}  // namespace

struct StallMonitor::State {
  void run() {
    std::unique_lock lock(mutex);
    double before = now_s();
    while (!stop) {
      wake.wait_for(lock, std::chrono::duration<double>(kTickS));
      const double now = now_s();
      if (now - before >= kGapS) {
        stalled += now - before - kTickS;
      }
      before = now;
    }
  }

  mutable std::mutex mutex;
  std::condition_variable wake;
  bool stop = false;
  double stalled = 0;
  double start = now_s();
  std::thread thread;
};

StallMonitor::StallMonitor() : state_(std::make_unique<State>()) {
  state_->thread = std::thread([state = state_.get()] { state->run(); });
}

StallMonitor::~StallMonitor() {
  {
    const std::scoped_lock lock(state_->mutex);
    state_->stop = true;
  }
  state_->wake.notify_all();
  state_->thread.join();
}

double StallMonitor::stalled_share() const {
  const std::scoped_lock lock(state_->mutex);
  return state_->stalled / std::max(now_s() - state_->start, 1e-9);
}

}  // namespace plait
