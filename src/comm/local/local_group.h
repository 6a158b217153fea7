// A group of ranks that are threads of this process.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "comm/local/group_state.h"
#include "comm/local/local_transfer.h"
#include "comm/operation.h"
#include "comm/process_group.h"
#include "comm/progress_thread.h"

namespace plait {

class LocalGroup final : public ProcessGroup {
 public:
  LocalGroup(std::shared_ptr<GroupState> state, int group_rank, Device& device);
  ~LocalGroup() override;

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  const std::string& name() const override { return state_->name(); }

  Work all_reduce(const AllReduceOptions& options) override;
  Work reduce_scatter(const ReduceScatterOptions& options) override;
  Work all_gather(const AllGatherOptions& options) override;
  Work broadcast(const BroadcastOptions& options) override;
  Work all_to_all(const AllToAllOptions& options) override;
  Work send(const TransferOptions& options) override;
  Work recv(const TransferOptions& options) override;
  void barrier() override;
  std::vector<std::string> gather_bytes(const std::string& mine) override;

 private:
  Work run(const Operation& operation, bool async);
  ProgressThread& progress();
  void finish_async();

  // The following run on the host thread or the progress thread, never on both at once.
  void execute(const Operation& operation, double spin_s);
  void all_reduce_now(const Operation& operation);
  void reduce_scatter_now(const Operation& operation);
  void all_gather_now(const Operation& operation);
  void broadcast_now(const Operation& operation);
  void all_to_all_now(const Operation& operation);
  void gather_bytes_now(const std::string& mine, std::vector<std::string>* all);

  Slot& slot(int group_rank) { return state_->member(group_rank).slots[sequence_ & 1U]; }
  std::byte* data_of(int group_rank) { return slot(group_rank).data; }
  // First exchange: my slot is filled; publishes it and waits for all others.
  void exchange(const Operation& operation);
  void post_pointers(const Operation& operation);
  // Brackets around reading or writing peers' buffers.
  void begin_touching();
  void end_touching();
  // Second exchange: nobody touches my buffers any more when it returns.
  void leave(const Operation& operation);

  // Waits until arrived(peer) holds for every peer.
  template <typename Arrived>
  void await(const Operation& operation, Arrived arrived);
  void check_signatures(const Operation& operation);
  void wait_until_untouched();
  [[noreturn]] void fail_stopped();
  [[noreturn]] void fail_deadline(const Operation& operation, const std::vector<int>& missing);

  std::shared_ptr<GroupState> state_;
  const int rank_;
  const int size_;
  const int world_rank_;
  Device& device_;
  OperationRecord& record_;
  const int64_t slot_bytes_;  // up to here data travels in slots
  uint64_t sequence_ = 0;
  uint64_t num_leaves_ = 0;
  double spin_s_ = 0;  // of the operation that runs
  // Scratch of the reductions: by group rank.
  std::vector<const std::byte*> sources_;
  std::vector<std::byte*> destinations_;
  std::atomic<bool> cancelled_{false};
  LocalTransfers transfers_;
  std::unique_ptr<ProgressThread> progress_;
};

}  // namespace plait
