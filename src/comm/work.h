// The handle of a collective or transfer in flight.
#pragma once

#include <memory>

namespace plait {

class Work {
 public:
  // Seconds of base/clock.h.
  struct Interval {
    double begin_s = 0;
    double end_s = 0;
  };
  class State {
   public:
    virtual ~State() = default;
    virtual bool done() = 0;
    // Blocks until done, at most until the group's deadline. Throws the operation's Error.
    virtual void wait() = 0;
    // When the transfer ran; zeros where nobody knows. Requires: done.
    virtual Interval interval() { return {}; }
  };

  // A default-constructed Work is done.
  Work() = default;
  explicit Work(std::shared_ptr<State> state) : state_(std::move(state)) {}

  // After wait() returns, work that the caller queues on the group's device sees the result, and
  // the buffers may be reused. Errors: kComm, naming op, group, sequence number, rank, peer, bytes,
  // elapsed and limit. Idempotent.
  void wait() {
    if (state_ != nullptr) {
      state_->wait();
    }
  }
  // Of the transfer itself, not of the wait; zeros for blocking operations.
  Interval interval() { return state_ == nullptr ? Interval{} : state_->interval(); }
  bool done() { return state_ == nullptr || state_->done(); }

 private:
  std::shared_ptr<State> state_;
};

}  // namespace plait
