// File work of ranks that must stay in step: it runs on a thread of its own while the rank's own
// thread keeps exchanging a status with its peers, so that no peer waits longer than the deadline
// of communication, however slow the disk, and an error of one rank reaches all.
#pragma once

#include <atomic>
#include <functional>
#include <optional>
#include <string>
#include <thread>

#include "base/error.h"
#include "comm/process_group.h"

namespace plait {

// One function on a thread. Never calls collectives from there.
class BackgroundTask {
 public:
  // `cancelled` turns true when the result is no longer wanted; long bodies look at it between
  // pieces and throw kCancelled.
  using Body = std::function<void(const std::atomic<bool>& cancelled)>;
  BackgroundTask(const std::string& thread_name, Body body);
  // Cancels and waits for the body.
  ~BackgroundTask();
  BackgroundTask(const BackgroundTask&) = delete;
  BackgroundTask& operator=(const BackgroundTask&) = delete;

  void cancel() { cancelled_ = true; }
  bool done() const { return done_; }
  // What the body threw. Requires: done().
  const std::optional<Error>& error() const { return error_; }

 private:
  void run(const Body& body);

  std::atomic<bool> cancelled_ = false;
  std::atomic<bool> done_ = false;
  std::optional<Error> error_;  // written before done_
  std::thread thread_;
};

// The state of the ranks' tasks, the same on every rank.
struct GroupStatus {
  bool all_done = false;
  bool failed = false;
  // Of the lowest rank that failed, naming it; set once all are done.
  std::optional<Error> error;
};

// One exchange. Cancels this rank's task if another one's has failed. Collective.
GroupStatus exchange_status(ProcessGroup& group, BackgroundTask& task);

// Exchanges until all tasks are done, sleeping in between. Collective.
GroupStatus wait_together(ProcessGroup& group, BackgroundTask& task);

// Runs `body` on every rank. Returns on all ranks, or throws the same error on all: the code of the
// lowest failing rank, its message behind `what`. Collective; no rank waits longer for another than
// the exchange of a few bytes takes.
void run_together(ProcessGroup& group, const std::string& what, const BackgroundTask::Body& body);

// Throws kCancelled if set.
void throw_if_cancelled(const std::atomic<bool>& cancelled);

}  // namespace plait
