#include "comm/local/group_state.h"

#include <utility>

namespace plait {

GroupState::GroupState(WorldState& world, std::string name, std::vector<int> ranks)
    : world_(world),
      name_(std::move(name)),
      ranks_(std::move(ranks)),
      members_(std::make_unique<Member[]>(ranks_.size())),
      mailboxes_(std::make_unique<Mailbox[]>(ranks_.size() * ranks_.size())) {
  for (const int rank : ranks_) {
    records_.push_back(std::make_unique<OperationRecord>(rank, name_, ranks_));
    transfer_records_.push_back(std::make_unique<OperationRecord>(rank, name_, ranks_));
  }
}

void GroupState::kill(const std::string& reason) {
  {
    const std::scoped_lock lock(mutex_);
    if (death_reason_.empty()) {
      death_reason_ = reason;
    }
  }
  dead_.store(true, std::memory_order_seq_cst);
  ring_all();
}

std::string GroupState::death_reason() {
  const std::scoped_lock lock(mutex_);
  return death_reason_;
}

void GroupState::throw_stopped(int world_rank, bool await_reason) {
  if (await_reason ? world_.await_abort() : world_.aborted()) {
    world_.throw_aborted(world_rank);
  }
  throw_error(ErrorCode::kCancelled, "rank {} left group {}: {}", world_rank, name_,
              death_reason());
}

void GroupState::ring_all() {
  bell_.ring();
  for (int i = 0; i < size(); ++i) {
    member(i).bell.ring();
  }
}

}  // namespace plait
