// Signals as a training run understands them. Process-wide by nature.
#pragma once

namespace plait {

// While one exists: SIGINT and SIGTERM are noted instead of ending the process (a second one, or no
// reaction within `grace_s`, ends it with status 128 + signal), and SIGUSR1 prints what every rank
// of this process is doing. At most one at a time; threads started before it keep the old
// behaviour, so make it first in main.
class StopSignals {
 public:
  explicit StopSignals(double grace_s);
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;
};

// The signal that asked to stop, or 0. Thread-safe.
int stop_signal();

}  // namespace plait
