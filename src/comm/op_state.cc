#include "comm/op_state.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "comm/flight_record.h"

namespace plait {
namespace {

struct Registry {
  std::mutex mutex;
  std::vector<OperationRecord*> records;
};

// Never destroyed: records may outlive static destruction in a process that exits early.
Registry& registry() {
  // NOLINTNEXTLINE(cppcoreguidelines-avoid-non-const-global-variables): process-wide by nature.
  static auto* instance = new Registry;
  return *instance;
}

std::string describe_locked(const Registry& all, int rank) {
  std::string running;
  std::string last;
  for (const OperationRecord* record : all.records) {
    if (record->rank() != rank || record->kind() == OpKind::kNone) {
      continue;
    }
    std::string& list = record->running() ? running : last;
    list += (list.empty() ? "" : "; ") + record->describe();
  }
  if (!running.empty()) {
    return "in " + running;
  }
  return last.empty() ? "before its first operation" : "between operations (last: " + last + ")";
}

}  // namespace

const char* op_kind_name(OpKind kind) {
  switch (kind) {
    case OpKind::kNone:
      return "nothing";
    case OpKind::kAllReduce:
      return "all_reduce";
    case OpKind::kReduceScatter:
      return "reduce_scatter";
    case OpKind::kAllGather:
      return "all_gather";
    case OpKind::kBroadcast:
      return "broadcast";
    case OpKind::kAllToAll:
      return "all_to_all";
    case OpKind::kSend:
      return "send";
    case OpKind::kRecv:
      return "recv";
    case OpKind::kBarrier:
      return "barrier";
    case OpKind::kGatherBytes:
      return "gather_bytes";
  }
  return "?";
}

OperationRecord::OperationRecord(int rank, std::string group, const std::vector<int>& members)
    : recorder_(FlightRecorder::of_rank(rank)), rank_(rank), group_(std::move(group)) {
  if (recorder_ != nullptr) {
    flight_group_ = recorder_->add_group(group_, members);
    recorder_ = flight_group_ < 0 ? nullptr : recorder_;
  }
  Registry& all = registry();
  const std::scoped_lock lock(all.mutex);
  all.records.push_back(this);
}

OperationRecord::~OperationRecord() {
  Registry& all = registry();
  const std::scoped_lock lock(all.mutex);
  std::erase(all.records, this);
}

void OperationRecord::record_begin(const Details& details) {
  entry_.store(
      recorder_->begin({flight_group_, kind(), sequence(), details.signature, details.bytes}),
      std::memory_order_relaxed);
}

void OperationRecord::record_end() {
  if (FlightEntry* entry = entry_.exchange(nullptr, std::memory_order_relaxed)) {
    FlightRecorder::end(*entry);
  }
}

std::string OperationRecord::describe() const {
  return fmt::format("{}, sequence {}, of group {}", op_kind_name(kind()), sequence(), group_);
}

std::string describe_operations(int rank) {
  Registry& all = registry();
  const std::scoped_lock lock(all.mutex);
  return describe_locked(all, rank);
}

std::string format_operation_table() {
  Registry& all = registry();
  const std::scoped_lock lock(all.mutex);
  std::vector<int> ranks;
  for (const OperationRecord* record : all.records) {
    ranks.push_back(record->rank());
  }
  std::ranges::sort(ranks);
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  std::string table;
  for (const int rank : ranks) {
    table += fmt::format("rank {}: {}\n", rank, describe_locked(all, rank));
  }
  return table;
}

}  // namespace plait
