#include "comm/local/world_state.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "comm/local/group_state.h"

namespace plait {
namespace {

// How long a rank whose peer failed waits to be told why.
constexpr double kReasonWaitS = 0.2;

}  // namespace

bool WorldState::abort(const std::string& reason) {
  std::vector<std::shared_ptr<GroupState>> groups;
  {
    const std::scoped_lock lock(mutex_);
    if (aborted_.load(std::memory_order_relaxed)) {
      return false;
    }
    abort_reason_ = reason;
    aborted_.store(true, std::memory_order_release);
    for (const auto& group : groups_) {
      if (auto alive = group.lock()) {
        groups.push_back(std::move(alive));
      }
    }
  }
  for (const auto& group : groups) {
    group->ring_all();
  }
  return true;
}

void WorldState::throw_aborted(int rank) {
  const std::scoped_lock lock(mutex_);
  throw_error(ErrorCode::kCancelled, "rank {} was told to stop: {}", rank, abort_reason_);
}

bool WorldState::await_abort() const {
  const Deadline deadline = Deadline::after_s(kReasonWaitS);
  while (!aborted() && !deadline.passed()) {
    std::this_thread::yield();
  }
  return aborted();
}

std::shared_ptr<GroupState> WorldState::join_group(int64_t index, const std::string& name,
                                                   const std::vector<std::vector<int>>& partition,
                                                   int rank) {
  const std::scoped_lock lock(mutex_);
  auto found = std::ranges::find(creations_, index, &std::pair<int64_t, Creation>::first);
  if (found == creations_.end()) {
    Creation creation{name, partition, {}, rank, 0};
    for (const std::vector<int>& ranks : partition) {
      creation.groups.push_back(std::make_shared<GroupState>(*this, name, ranks));
      groups_.push_back(creation.groups.back());
    }
    creations_.emplace_back(index, std::move(creation));
    found = creations_.end() - 1;
  }
  Creation& creation = found->second;
  if (creation.name != name || creation.partition != partition) {
    throw_error(ErrorCode::kComm,
                "create_group: rank {} asked for group {} where rank {} asked for group {} or for "
                "other members of it; every rank must create the same groups in the same order",
                rank, name, creation.first_rank, creation.name);
  }
  std::shared_ptr<GroupState> mine;
  for (const auto& group : creation.groups) {
    if (std::ranges::find(group->ranks(), rank) != group->ranks().end()) {
      mine = group;
    }
  }
  if (++creation.joined == options_.size) {
    creations_.erase(found);
  }
  std::erase_if(groups_, [](const auto& group) { return group.expired(); });
  return mine;
}

}  // namespace plait
