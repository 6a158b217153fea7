// What the ranks of one process share: who failed first, and every group's bells.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/error.h"
#include "comm/local/bell.h"
#include "comm/process_group.h"

namespace plait {

class GroupState;

struct LocalWorldOptions {
  int size = 1;
  double deadline_s = 30;
  double spin_s = 0;  // of host threads; progress threads never spin
};

class WorldState {
 public:
  explicit WorldState(const LocalWorldOptions& options) : options_(options) {}

  const LocalWorldOptions& options() const { return options_; }
  bool aborted() const { return aborted_.load(std::memory_order_acquire); }

  // The first call decides what every waiting rank reports; returns whether this was it.
  bool abort(const std::string& reason);
  // Throws kCancelled with what abort() was given. Requires: aborted().
  [[noreturn]] void throw_aborted(int rank);
  // For a rank whose group was ended by a peer: that peer calls abort() as soon as its error has
  // left its stack, so waits a little for it. Returns aborted().
  bool await_abort() const;

  // The shared state of the `index`-th create_group call's group with these members: the first
  // member that asks makes it. Throws kComm when another rank passed a different partition.
  std::shared_ptr<GroupState> join_group(int64_t index, const std::string& name,
                                         const std::vector<std::vector<int>>& partition, int rank);

 private:
  struct Creation {
    std::string name;
    std::vector<std::vector<int>> partition;
    std::vector<std::shared_ptr<GroupState>> groups;
    int first_rank = 0;
    int joined = 0;
  };

  const LocalWorldOptions options_;
  std::atomic<bool> aborted_{false};
  std::mutex mutex_;
  std::string abort_reason_;
  std::vector<std::weak_ptr<GroupState>> groups_;
  std::vector<std::pair<int64_t, Creation>> creations_;  // not yet joined by every rank
};

}  // namespace plait
