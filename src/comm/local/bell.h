// Sleeping and waking between threads of one process, with a time limit.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/clock.h"
#include "base/cpu_relax.h"

namespace plait {

enum class WaitResult { kReady, kStopped, kDeadline };

struct WaitPolicy {
  double spin_s = 0;      // poll this long before sleeping
  double deadline_s = 0;  // give up after this long
};

// Threads wait for a condition over atomics; whoever makes it true rings afterwards. A sleeping
// thread looks again every few milliseconds in any case, so a missed ring costs latency only.
class Bell {
 public:
  // Wakes every sleeper. Reading by read-modify-write orders this against a thread that is just
  // falling asleep: either it is seen here, or it sees the caller's earlier stores.
  void ring() {
    if (sleepers_.fetch_add(0, std::memory_order_seq_cst) > 0) {
      wake();
    }
  }
  // The same by a plain load, for paths of nanoseconds: may miss a thread that is just falling
  // asleep, which then sleeps one slice too long.
  void ring_lightly() {
    if (sleepers_.load(std::memory_order_relaxed) > 0) {
      wake();
    }
  }

  // Waits until ready() or stopped() holds or the deadline has passed.
  template <typename Ready, typename Stopped>
  WaitResult wait(const WaitPolicy& policy, Ready ready, Stopped stopped) {
    const Deadline deadline = Deadline::after_s(policy.deadline_s);
    for (double spun_s = 0; spun_s < policy.spin_s; spun_s = deadline.elapsed_s()) {
      for (int i = 0; i < kPollsPerClock; ++i) {
        if (ready()) {
          return WaitResult::kReady;
        }
        cpu_relax();
      }
      if (stopped()) {
        return WaitResult::kStopped;
      }
      if (spun_s > policy.deadline_s) {
        return WaitResult::kDeadline;
      }
    }
    for (;;) {
      const uint32_t seen = word_.load(std::memory_order_acquire);
      sleepers_.fetch_add(1, std::memory_order_seq_cst);
      const bool is_ready = ready();
      const bool is_stopped = !is_ready && stopped();
      const double left_s = deadline.left_s();
      if (!is_ready && !is_stopped && left_s > 0) {
        sleep(seen, left_s < kSliceS ? left_s : kSliceS);
      }
      sleepers_.fetch_sub(1, std::memory_order_relaxed);
      if (is_ready) {
        return WaitResult::kReady;
      }
      if (is_stopped) {
        return WaitResult::kStopped;
      }
      if (left_s <= 0) {
        return ready() ? WaitResult::kReady : WaitResult::kDeadline;
      }
    }
  }

 private:
  static constexpr int kPollsPerClock = 64;
  static constexpr double kSliceS = 5e-3;

  // Blocks while word_ is `seen`, at most `timeout_s`.
  void sleep(uint32_t seen, double timeout_s);
  void wake();

  alignas(64) std::atomic<uint32_t> word_{0};
  std::atomic<uint32_t> sleepers_{0};
};

}  // namespace plait
