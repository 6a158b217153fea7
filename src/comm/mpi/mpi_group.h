// A group of ranks that are processes of an MPI job.
//
// Collectives are built from point-to-point messages, so that reductions add in rank order with the
// same code, and to the same bits, as comm/local. Let N be the bytes of one rank's buffer, n the
// number of ranks: an all_reduce of more than kSmallBytes / n moves 2 (n - 1) / n N a rank
// (reduce-scatter and all-gather, in segments); a smaller one n - 1 times N in one step.
//
// When the ranks of the group lie on several hosts, equally many (> 1) on each and neighbours in
// the group, then f32 and integer reductions of more than kSmallBytes add within each host first
// and then across hosts: each byte crosses a host's link 2 (h - 1) / h times for h hosts. The order
// is fixed all the same. gather_bytes and broadcast use trees or direct messages.
//
// Asynchronous collectives run in a progress thread of the group, in call order; asynchronous
// transfers are progressed by another, so that they are not ordered with the collectives. Blocking
// sends return when the buffer may be reused.
#pragma once

#include <mpi.h>

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "comm/mpi/mpi_requests.h"
#include "comm/mpi/mpi_transfers.h"
#include "comm/mpi/side_channel.h"
#include "comm/operation.h"
#include "comm/process_group.h"
#include "comm/progress_thread.h"

namespace plait {

// What a group needs of its world.
struct MpiContext {
  Device* device = nullptr;
  SideChannel* side_channel = nullptr;
  double deadline_s = 30;
  bool may_spin = false;
};

class MpiGroup final : public ProcessGroup {
 public:
  // `ranks` are world ranks by group rank. Takes both communicators over.
  struct Options {
    std::string name;
    std::vector<int> ranks;
    int rank = 0;
    MPI_Comm collectives = MPI_COMM_NULL;
    MPI_Comm transfers = MPI_COMM_NULL;
    std::vector<int> hosts;  // host number by group rank
  };
  MpiGroup(Options options, const MpiContext& context);
  ~MpiGroup() override;

  int rank() const override { return options_.rank; }
  int size() const override { return static_cast<int>(options_.ranks.size()); }
  const std::string& name() const override { return options_.name; }

  Work all_reduce(const AllReduceOptions& options) override;
  Work reduce_scatter(const ReduceScatterOptions& options) override;
  Work all_gather(const AllGatherOptions& options) override;
  Work broadcast(const BroadcastOptions& options) override;
  Work all_to_all(const AllToAllOptions& options) override;
  Work send(const TransferOptions& options) override { return transfers_.send(options); }
  Work recv(const TransferOptions& options) override { return transfers_.recv(options); }
  void barrier() override;
  std::vector<std::string> gather_bytes(const std::string& mine) override;

 private:
  // Some ranks of the group in order, among them this one.
  struct Team {
    std::vector<int> members;  // group ranks
    int place = 0;
    int size() const { return static_cast<int>(members.size()); }
  };

  Work run(const Operation& operation, bool async);
  void finish_async();
  void execute(const Operation& operation, bool may_spin);
  void all_reduce_now(const Operation& operation);
  void all_reduce_small(const Operation& operation);
  void reduce_scatter_now(const Operation& operation);
  void all_gather_now(const Operation& operation);
  void broadcast_now(const Operation& operation);
  void all_to_all_now(const Operation& operation);
  void barrier_now(const Operation& operation);

  // A run of elements in host memory.
  struct Span {
    std::byte* data = nullptr;
    int64_t count = 0;
  };
  // Splits `span` over the team; afterwards this rank's part holds the team's sum. Returns the
  // part.
  Span reduce_parts(const Operation& operation, const Team& team, Span span);
  // The reverse: everybody's part is spread to all.
  void gather_parts(const Operation& operation, const Team& team, Span span);
  static Span part_of(Span span, const Operation& operation, int parts, int index);
  // Second level of a reduce-scatter: one partial sum for each host in, this rank's total out.
  void exchange_partials(const Operation& operation, Span partial, std::byte* result);

  std::byte* staging(int64_t bytes);
  void complete(MpiRequests& requests, const Operation& operation);
  [[noreturn]] void fail(MpiRequests& requests, const Operation& operation, MpiWaitResult result);
  void plan_levels();

  const Options options_;
  const MpiContext context_;
  OperationRecord record_;
  uint64_t sequence_ = 0;
  bool may_spin_ = false;  // of the operation that runs
  bool two_levels_ = false;
  Team everybody_;
  Team host_team_;   // on this host
  Team cross_team_;  // one on each host
  std::atomic<bool> cancelled_{false};
  // Not a Buffer: after a failure MPI may still know it, so it has to outlive the device.
  std::unique_ptr<std::byte[]> staging_;
  int64_t staging_bytes_ = 0;
  MpiTransfers transfers_;
  std::unique_ptr<ProgressThread> progress_;
};

}  // namespace plait
