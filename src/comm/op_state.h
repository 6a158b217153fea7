// What each rank of this process is doing in its groups: for SIGUSR1, deadline errors and fault
// reports. One record per group member, written by the thread that runs the group's operations with
// relaxed stores to its own cache line, read by anybody. The list of records is process-wide: a
// signal and a heartbeat concern the process, not one object in it.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

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

class FlightRecorder;
struct FlightEntry;

// The last operation of one group member. Registered for its whole life; if a flight folder is set
// (comm/flight_record.h), every operation goes into the rank's record too.
class OperationRecord {
 public:
  // `rank` is the rank in the world, as are `members`.
  OperationRecord(int rank, std::string group, const std::vector<int>& members);
  ~OperationRecord();
  OperationRecord(const OperationRecord&) = delete;
  OperationRecord& operator=(const OperationRecord&) = delete;

  // What the ranks of a group compare afterwards; 0 where it is not known.
  struct Details {
    uint64_t signature = 0;
    int64_t bytes = 0;
  };
  void begin(OpKind kind, uint64_t sequence) { begin(kind, sequence, {}); }
  void begin(OpKind kind, uint64_t sequence, const Details& details) {
    word_.store((sequence << 16) | (static_cast<uint64_t>(kind) << 8) | 1U,
                std::memory_order_relaxed);
    if (recorder_ != nullptr) {
      record_begin(details);
    }
  }
  void end() {
    word_.store(word_.load(std::memory_order_relaxed) & ~uint64_t{1}, std::memory_order_relaxed);
    if (recorder_ != nullptr) {
      record_end();
    }
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
  void record_begin(const Details& details);
  void record_end();

  alignas(64) std::atomic<uint64_t> word_{0};
  FlightRecorder* recorder_ = nullptr;
  std::atomic<FlightEntry*> entry_{nullptr};  // of the running operation
  int flight_group_ = -1;
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
