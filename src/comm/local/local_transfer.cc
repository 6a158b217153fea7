#include "comm/local/local_transfer.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <thread>
#include <utility>

#include "base/error.h"

namespace plait {
namespace {

constexpr size_t kMaxMessages = 65536;

void finish(GroupState& state, Transfer& transfer, Transfer::Status status) {
  Bell& bell = state.member(transfer.owner).bell;
  transfer.status.store(status, std::memory_order_release);
  bell.ring();
}

// Requires: both have met and the devices are done with the buffers.
void copy(GroupState& state, Transfer& send, Transfer& recv) {
  if (send.bytes == recv.bytes) {
    if (send.bytes > 0) {
      std::memcpy(recv.data, send.data, static_cast<size_t>(send.bytes));
    }
    finish(state, send, Transfer::kDone);
    finish(state, recv, Transfer::kDone);
    return;
  }
  const auto rank_of = [&](const Transfer& t) {
    return state.ranks()[static_cast<size_t>(t.owner)];
  };
  const std::string reason = fmt::format(
      "group {}: send {} of rank {} to rank {} has {} B, its recv expects {} B", state.name(),
      send.sequence, rank_of(send), rank_of(recv), send.bytes, recv.bytes);
  send.error = recv.error = reason;
  finish(state, send, Transfer::kFailed);
  finish(state, recv, Transfer::kFailed);
  state.kill(reason);
}

}  // namespace

class LocalTransfers::TransferWork final : public Work::State {
 public:
  TransferWork(std::shared_ptr<GroupState> state, std::shared_ptr<Transfer> transfer, OpKind kind,
               int peer)
      : state_(std::move(state)), transfer_(std::move(transfer)), kind_(kind), peer_(peer) {}

  ~TransferWork() override {
    if (!done() && std::uncaught_exceptions() == 0) {
      wait_status();
    }
    withdraw();
  }

  bool done() override { return status() >= Transfer::kDone; }

  void wait() override {
    OperationRecord& record = state_->transfer_record(transfer_->owner);
    record.begin(kind_, transfer_->sequence);
    const WaitResult result = wait_status();
    if (result == WaitResult::kReady) {
      record.end();
      if (status() == Transfer::kFailed) {
        throw Error(ErrorCode::kComm, transfer_->error);
      }
      return;
    }
    withdraw();
    const int rank = state_->ranks()[static_cast<size_t>(transfer_->owner)];
    const int peer = state_->ranks()[static_cast<size_t>(peer_)];
    if (result == WaitResult::kStopped) {
      state_->throw_stopped(rank, true);
    }
    const std::string reason = fmt::format(
        "{} (sequence {}, group {}, {} B) on rank {}: waited {:.1f} s, the limit, for rank {} "
        "(which is {}); if that is slow rather than stuck, raise the deadline",
        op_kind_name(kind_), transfer_->sequence, state_->name(), transfer_->bytes, rank,
        state_->world().options().deadline_s, peer, describe_operations(peer));
    state_->kill(reason);
    throw Error(ErrorCode::kComm, reason);
  }

 private:
  int status() const { return transfer_->status.load(std::memory_order_acquire); }

  WaitResult wait_status() {
    const LocalWorldOptions& options = state_->world().options();
    return state_->member(transfer_->owner)
        .bell.wait(
            {options.spin_s, options.deadline_s}, [&] { return done(); },
            [&] { return state_->dead() || state_->world().aborted(); });
  }

  // Nobody touches the buffer any more when this returns.
  void withdraw() {
    const bool is_send = kind_ == OpKind::kSend;
    const int owner = transfer_->owner;
    Mailbox& box = is_send ? state_->mailbox(owner, peer_) : state_->mailbox(peer_, owner);
    {
      const std::scoped_lock lock(box.mutex);
      if (status() == Transfer::kWaiting) {
        std::erase(is_send ? box.sends : box.recvs, transfer_);
        transfer_->status.store(Transfer::kFailed, std::memory_order_release);
      }
    }
    while (!done()) {
      std::this_thread::yield();
    }
  }

  std::shared_ptr<GroupState> state_;
  std::shared_ptr<Transfer> transfer_;
  OpKind kind_;
  int peer_;
};

LocalTransfers::LocalTransfers(std::shared_ptr<GroupState> state, int group_rank, Device& device)
    : state_(std::move(state)), rank_(group_rank), device_(device) {}

LocalTransfers::~LocalTransfers() = default;

Work LocalTransfers::send(const TransferOptions& options) {
  return start(OpKind::kSend, options);
}

Work LocalTransfers::recv(const TransferOptions& options) {
  return start(OpKind::kRecv, options);
}

Work LocalTransfers::start(OpKind kind, const TransferOptions& options) {
  CHECK_GE(options.bytes, 0);
  CHECK_GE(options.peer, 0);
  CHECK_LT(options.peer, state_->size());
  CHECK_NE(options.peer, rank_);
  const bool is_send = kind == OpKind::kSend;
  auto transfer = std::make_shared<Transfer>();
  transfer->data = options.bytes > 0 ? device_.host_view(options.buffer) : nullptr;
  transfer->bytes = options.bytes;
  transfer->owner = rank_;
  if (options.async) {
    transfer->ready = device_.stream().record();
  } else {
    device_.stream().synchronize();
  }
  Mailbox& box =
      is_send ? state_->mailbox(rank_, options.peer) : state_->mailbox(options.peer, rank_);
  std::shared_ptr<Transfer> other;
  {
    const std::scoped_lock lock(box.mutex);
    transfer->sequence = is_send ? ++box.num_sends : ++box.num_recvs;
    auto& others = is_send ? box.recvs : box.sends;
    auto& mine = is_send ? box.sends : box.recvs;
    if (!others.empty()) {
      other = std::move(others.front());
      others.pop_front();
      other->status.store(Transfer::kCopying, std::memory_order_relaxed);
      transfer->status.store(Transfer::kCopying, std::memory_order_relaxed);
    } else if (mine.size() >= kMaxMessages) {
      throw_error(ErrorCode::kResourceExhausted,
                  "{} on rank {}, group {}: {} transfers wait for rank {} already",
                  op_kind_name(kind), state_->ranks()[static_cast<size_t>(rank_)], state_->name(),
                  kMaxMessages, state_->ranks()[static_cast<size_t>(options.peer)]);
    } else {
      if (is_send && !options.async && options.bytes <= kBufferedBytes) {
        transfer->buffered.reset(new std::byte[static_cast<size_t>(options.bytes)]);
        if (options.bytes > 0) {
          std::memcpy(transfer->buffered.get(), transfer->data, static_cast<size_t>(options.bytes));
        }
        transfer->data = transfer->buffered.get();
      }
      mine.push_back(transfer);
    }
  }
  if (other != nullptr) {
    is_send ? match(transfer, other, options.async) : match(other, transfer, options.async);
  } else if (transfer->buffered != nullptr) {
    return Work();
  }
  Work work(std::make_shared<TransferWork>(state_, transfer, kind, options.peer));
  if (!options.async) {
    work.wait();
    return Work();
  }
  return work;
}

void LocalTransfers::match(const std::shared_ptr<Transfer>& send,
                           const std::shared_ptr<Transfer>& recv, bool async) {
  if (!async || (send->ready.done() && recv->ready.done())) {
    send->ready.wait();
    recv->ready.wait();
    copy(*state_, *send, *recv);
    return;
  }
  if (copier_ == nullptr) {
    ProgressOptions options;
    options.thread_name = "p2p-" + state_->name();
    options.label = "transfers of group " + state_->name();
    options.deadline_s = state_->world().options().deadline_s;
    options.cancel = [] {};
    copier_ = std::make_unique<ProgressThread>(std::move(options));
  }
  copier_->submit_detached([state = state_, send, recv] {
    send->ready.wait();
    recv->ready.wait();
    copy(*state, *send, *recv);
  });
}

}  // namespace plait
