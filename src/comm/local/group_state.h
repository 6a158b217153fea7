// The memory through which the ranks of one comm/local group meet.
//
// Every collective starts with an exchange: each rank publishes its arguments in its slot and waits
// for the slots of all others. There are two slots a rank, used in turn: when a rank publishes
// operation s + 2 it has seen everybody's s + 1, so everybody has finished reading slot s. Small
// data travels inside the slot. Larger data is read and written in place in the peers' buffers; a
// second exchange (`left`) then says that nobody touches the buffers any more.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "comm/local/bell.h"
#include "comm/local/world_state.h"
#include "comm/op_state.h"
#include "device/device.h"

namespace plait {

// Bytes of data that fit into a slot.
constexpr int64_t kSlotBytes = 4080;
// What is put there between spinning ranks: beyond this, writing the slot's cache lines costs more
// than a second exchange. Between sleeping ranks an exchange is a context switch, so all is used.
constexpr int64_t kSpinningSlotBytes = 256;

struct alignas(128) Slot {
  struct Pointers {
    std::byte* input = nullptr;
    std::byte* output = nullptr;
    int64_t bytes = 0;
  };
  std::atomic<uint64_t> posted{0};  // sequence number whose arguments are here
  uint64_t signature = 0;           // operation, dtype and count: must agree between ranks
  // The data or, as bytes, Pointers; the first 48 bytes share the cache line of `posted`.
  std::byte data[kSlotBytes];

  void set_pointers(const Pointers& pointers) { std::memcpy(data, &pointers, sizeof(pointers)); }
  Pointers pointers() const {
    Pointers result;
    std::memcpy(&result, data, sizeof(result));
    return result;
  }
};

// One send or receive. Its owner's thread waits on the owner's bell.
struct Transfer {
  enum Status : int { kWaiting, kCopying, kDone, kFailed };
  std::byte* data = nullptr;
  int64_t bytes = 0;
  uint64_t sequence = 0;
  int owner = 0;                          // group rank
  Event ready;                            // the device's earlier work on the buffer
  std::unique_ptr<std::byte[]> buffered;  // a blocking send's copy
  std::atomic<int> status{kWaiting};
  std::string error;  // when kFailed; written before status
};

// Sends and receives from one rank to another that have not met yet; at most one side waits.
struct Mailbox {
  std::mutex mutex;
  std::deque<std::shared_ptr<Transfer>> sends;
  std::deque<std::shared_ptr<Transfer>> recvs;
  uint64_t num_sends = 0;
  uint64_t num_recvs = 0;
};

struct Member {
  Slot slots[2];
  alignas(128) std::atomic<uint64_t> left{0};
  // Set while the rank reads or writes peers' buffers: a failing peer waits for it before its
  // buffers go away.
  std::atomic<uint32_t> touching{0};
  alignas(128) Bell bell;  // for transfers
};

class GroupState {
 public:
  // `world` must outlive the group.
  GroupState(WorldState& world, std::string name, std::vector<int> ranks);

  int size() const { return static_cast<int>(ranks_.size()); }
  const std::string& name() const { return name_; }
  // World ranks by group rank.
  const std::vector<int>& ranks() const { return ranks_; }
  WorldState& world() const { return world_; }
  Member& member(int group_rank) { return members_[static_cast<size_t>(group_rank)]; }
  // The collective and the transfer that a member is in.
  OperationRecord& record(int group_rank) { return *records_[static_cast<size_t>(group_rank)]; }
  OperationRecord& transfer_record(int group_rank) {
    return *transfer_records_[static_cast<size_t>(group_rank)];
  }
  Mailbox& mailbox(int from, int to) {
    return mailboxes_[static_cast<size_t>(from) * ranks_.size() + static_cast<size_t>(to)];
  }
  Bell& bell() { return bell_; }
  bool spins() const { return world_.options().spin_s > 0; }

  // Announces an arrival (first or second exchange): wakes peers when that may complete it. While
  // ranks outnumber cores only the last arrival wakes anybody.
  void arrived(std::atomic<uint64_t>& counter) {
    if (spins()) {
      bell_.ring_lightly();
    } else if ((counter.fetch_add(1, std::memory_order_acq_rel) + 1) % ranks_.size() == 0) {
      bell_.ring();
    }
  }
  std::atomic<uint64_t>& first_exchange() { return first_exchange_; }
  std::atomic<uint64_t>& second_exchange() { return second_exchange_; }

  bool dead() const { return dead_.load(std::memory_order_seq_cst); }
  // Marks the group dead; the first reason stays. Wakes everybody.
  void kill(const std::string& reason);
  // For a member that was stopped by it: throws kCancelled with what ended the job, for which it
  // waits a little if `await_reason`, or else with what ended the group.
  [[noreturn]] void throw_stopped(int world_rank, bool await_reason);
  void ring_all();

 private:
  std::string death_reason();

  WorldState& world_;
  std::string name_;
  std::vector<int> ranks_;
  std::unique_ptr<Member[]> members_;
  std::unique_ptr<Mailbox[]> mailboxes_;
  std::vector<std::unique_ptr<OperationRecord>> records_;
  std::vector<std::unique_ptr<OperationRecord>> transfer_records_;
  Bell bell_;
  alignas(128) std::atomic<uint64_t> first_exchange_{0};
  alignas(128) std::atomic<uint64_t> second_exchange_{0};
  alignas(128) std::atomic<bool> dead_{false};
  std::mutex mutex_;
  std::string death_reason_;
};

}  // namespace plait
