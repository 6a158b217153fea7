#include "train/stop_signal.h"

#include <pthread.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <thread>

#include "base/clock.h"
#include "base/log.h"
#include "comm/fault.h"
#include "comm/op_state.h"

namespace plait {
namespace {

// NOLINTBEGIN(cppcoreguidelines-avoid-non-const-global-variables): signals are the process's.
std::atomic<int> requested{0};
std::atomic<bool> watching{false};
std::thread watcher;
// NOLINTEND(cppcoreguidelines-avoid-non-const-global-variables)

sigset_t watched_signals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGUSR1);
  return set;
}

void watch(double grace_s) {
  pthread_setname_np(pthread_self(), "plait-signals");
  const sigset_t set = watched_signals();
  double asked_at_s = 0;
  while (watching.load()) {
    const timespec timeout{0, 100'000'000};
    const int signal = sigtimedwait(&set, nullptr, &timeout);
    const int first = requested.load();
    if (signal == SIGUSR1) {
      std::fputs(format_operation_table().c_str(), stderr);
    } else if (signal > 0 && first == 0) {
      requested = signal;
      asked_at_s = now_s();
      log_warning(-1, "{}: saving a checkpoint and stopping; again to stop at once",
                  signal == SIGINT ? "Ctrl-C" : "SIGTERM");
    } else if (signal == SIGTERM && await_peer_lost()) {
      // The launcher's: this process reports the loss and leaves.
    } else if (signal > 0 || (first != 0 && now_s() - asked_at_s > grace_s)) {
      log_error(-1, "stopping at once{}", signal > 0 ? "" : ": the grace time is over");
      _exit(128 + first);
    }
  }
}

}  // namespace

StopSignals::StopSignals(double grace_s) {
  requested = 0;
  const sigset_t set = watched_signals();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  watching = true;
  watcher = std::thread(watch, grace_s);
}

StopSignals::~StopSignals() {
  watching = false;
  watcher.join();
  const sigset_t set = watched_signals();
  pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
}

int stop_signal() {
  return requested.load();
}

}  // namespace plait
