// A thread that runs the asynchronous operations of one group, in call order.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "comm/work.h"

namespace plait {

struct ProgressOptions {
  std::string thread_name;  // at most 15 characters are kept
  std::string label;        // for messages: "group dp, rank 3"
  double deadline_s = 30;
  // Makes the running operation stop waiting for its peers and throw. Thread-safe.
  std::function<void()> cancel;
};

// After an operation has thrown, later ones fail with the same error. The destructor waits for what
// was submitted, or cancels it when an exception is passing through.
class ProgressThread {
 public:
  explicit ProgressThread(ProgressOptions options);
  ~ProgressThread();
  ProgressThread(const ProgressThread&) = delete;
  ProgressThread& operator=(const ProgressThread&) = delete;

  // Queues `body`. The Work's wait() gives up only when nothing has finished for longer than two
  // deadlines: each operation has its own. Dropping the last copy of a Work that is not done waits
  // for it (or cancels it when an exception is passing through), so that buffers declared before
  // the Work outlive the transfer. Errors: kResourceExhausted when too many operations are queued.
  Work submit(std::function<void()> body);

  // The same without a handle.
  void submit_detached(std::function<void()> body);

  // Waits until everything submitted has ended; rethrows the first error. The caller's blocking
  // operations call this first.
  void drain();
  bool idle() const { return pending_->load(std::memory_order_acquire) == 0; }

 private:
  struct Task;
  struct Shared;
  class TaskWork;
  std::shared_ptr<Shared> shared_;
  std::atomic<int>* pending_;
  std::thread thread_;
};

}  // namespace plait
