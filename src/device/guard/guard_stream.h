// An asynchronous stream: one worker thread that takes tasks in order.
#pragma once

#include <functional>
#include <memory>

#include "device/device.h"
#include "device/guard/guard_memory.h"

namespace plait::guard {

// Holds at most 256 tasks and 64 MiB of staged uploads; a caller that is further ahead waits.
// After a task has thrown, later tasks are dropped and every synchronize() and Event::wait()
// rethrows. `PLAIT_GUARD_DELAY_US=N` makes the worker sleep a random time below N microseconds
// before each task, so that missing synchronisation shows.
class GuardStream final : public Stream {
 public:
  explicit GuardStream(const GuardMemory& memory);
  // Finishes what is queued.
  ~GuardStream() override;
  GuardStream(const GuardStream&) = delete;
  GuardStream& operator=(const GuardStream&) = delete;

  void copy_to_device(DevicePtr destination, const void* source, int64_t bytes) override;
  void copy_to_host(void* destination, DevicePtr source, int64_t bytes) override;
  void copy(DevicePtr destination, DevicePtr source, int64_t bytes) override;
  void zero(DevicePtr destination, int64_t bytes) override;
  Event record() override;
  void wait(const Event& event) override;
  void synchronize() override;

  // Thread-safe.
  void enqueue(std::function<void()> task, int64_t staged_bytes = 0);
  // Queues filling with `byte`. Thread-safe.
  void fill(DevicePtr destination, int byte, int64_t bytes);

  const GuardMemory& memory() const { return memory_; }

 private:
  struct Core;
  class Point;
  const GuardMemory& memory_;
  std::shared_ptr<Core> core_;  // shared with events, which may outlive the stream
};

}  // namespace plait::guard
