// What each rank of this process is doing in its groups: for SIGUSR1, deadline errors and fault
// reports. One record per group member, written by the thread that runs the group's operations with
// relaxed stores to its own cache line, read by anybody. The list of records is process-wide: a
// signal and a heartbeat concern the process, not one object in it.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

namespace plait {

enum class OpKind : uint8_t {
  kNone,
  kAllReduce,
  kReduceScatter,
  kAllGather,
  kBroadcast,
  kAllToAll,
  kSend,
  kRecv,
  kBarrier,
  kGatherBytes,
};

// "all_reduce", ...; "nothing" for kNone.
const char* op_kind_name(OpKind kind);

// The last operation of one group member. Registered for its whole life.
class OperationRecord {
 public:
  // `rank` is the rank in the world.
  OperationRecord(int rank, std::string group);
  ~OperationRecord();
  OperationRecord(const OperationRecord&) = delete;
  OperationRecord& operator=(const OperationRecord&) = delete;

  void begin(OpKind kind, uint64_t sequence) {
    word_.store((sequence << 16) | (static_cast<uint64_t>(kind) << 8) | 1U,
                std::memory_order_relaxed);
  }
  void end() {
    word_.store(word_.load(std::memory_order_relaxed) & ~uint64_t{1}, std::memory_order_relaxed);
  }

  bool running() const { return (word() & 1U) != 0; }
  OpKind kind() const { return static_cast<OpKind>((word() >> 8) & 0xffU); }
  uint64_t sequence() const { return word() >> 16; }
  int rank() const { return rank_; }
  const std::string& group() const { return group_; }
  // "all_reduce, sequence 12, of group dp"
  std::string describe() const;

 private:
  uint64_t word() const { return word_.load(std::memory_order_relaxed); }
  alignas(64) std::atomic<uint64_t> word_{0};
  alignas(64) int rank_;
  std::string group_;
};

// What world rank `rank` of this process is in: "in all_reduce, sequence 12, of group dp", or
// "between operations (last: ...)". Thread-safe; not for signal handlers (takes a lock).
std::string describe_operations(int rank);

// One line per rank of this process, each "rank R: " and the above. Thread-safe, not async-signal-
// safe: a SIGUSR1 handler sets a flag and a normal thread prints.
std::string format_operation_table();

}  // namespace plait
