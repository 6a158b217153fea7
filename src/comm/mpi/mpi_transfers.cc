#include "comm/mpi/mpi_transfers.h"

#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <exception>
#include <map>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "comm/mpi/mpi_requests.h"

namespace plait {
namespace {

constexpr size_t kMaxOpen = 65536;
constexpr auto kPumpPause = std::chrono::microseconds(100);
constexpr double kRecordsWaitS = 1;

}  // namespace

struct MpiTransfers::Transfer {
  OpKind kind = OpKind::kNone;
  std::byte* data = nullptr;
  int64_t bytes = 0;
  int peer = 0;
  uint64_t sequence = 0;
  Event ready;
  std::unique_ptr<MpiRequests> requests;  // null until started
  std::atomic<bool> done{false};
};

struct MpiTransfers::Shared {
  explicit Shared(MpiTransfersOptions o)
      : options(std::move(o)),
        record(options.ranks[static_cast<size_t>(options.rank)], options.name, options.ranks) {}

  MpiTransfersOptions options;
  OperationRecord record;
  std::mutex mutex;
  std::condition_variable wake;                   // the pump
  std::deque<std::shared_ptr<Transfer>> waiting;  // for the device, in call order
  std::list<std::shared_ptr<Transfer>> started;
  uint64_t sequence = 0;
  bool stop = false;

  // Starts what is ready and completes what has arrived. Requires: mutex is held.
  void advance() {
    while (!waiting.empty() && waiting.front()->ready.done()) {
      const std::shared_ptr<Transfer> next = std::move(waiting.front());
      waiting.pop_front();
      next->requests = std::make_unique<MpiRequests>(options.comm);
      if (next->kind == OpKind::kSend) {
        next->requests->send(next->peer, next->data, next->bytes);
      } else {
        next->requests->recv(next->peer, next->data, next->bytes);
      }
      started.push_back(next);
    }
    for (auto it = started.begin(); it != started.end();) {
      if ((*it)->requests->test()) {
        (*it)->requests.reset();
        (*it)->done.store(true, std::memory_order_release);
        it = started.erase(it);
      } else {
        ++it;
      }
    }
  }

  // Forgets a transfer whose buffer goes away.
  void withdraw(const std::shared_ptr<Transfer>& transfer) {
    const std::scoped_lock lock(mutex);
    std::erase(waiting, transfer);
    started.remove(transfer);
    transfer->requests.reset();
    transfer->done.store(true, std::memory_order_release);
  }

  [[noreturn]] void fail(const Transfer& transfer) {
    const int rank = options.ranks[static_cast<size_t>(options.rank)];
    const int peer = options.ranks[static_cast<size_t>(transfer.peer)];
    auto table = options.side_channel->stopped() ? std::map<int, std::string>()
                                                 : options.side_channel->operations(kRecordsWaitS);
    // Another rank may have been faster in saying the same.
    if (options.side_channel->stopped()) {
      throw_error(ErrorCode::kCancelled, "rank {} was told to stop: {}", rank,
                  options.side_channel->stop_reason());
    }
    const std::string state = table.count(peer) != 0 ? table[peer] : "not known";
    throw_error(
        ErrorCode::kComm,
        "{} (sequence {}, group {}, {} B) on rank {}: waited {:.1f} s, the limit, for rank {} "
        "(which is {}); if that is slow rather than stuck, raise the deadline",
        op_kind_name(transfer.kind), transfer.sequence, options.name, transfer.bytes, rank,
        options.deadline_s, peer, state);
  }

  void wait(const std::shared_ptr<Transfer>& transfer) {
    record.begin(transfer->kind, transfer->sequence);
    const Deadline deadline = Deadline::after_s(options.deadline_s);
    while (!transfer->done.load(std::memory_order_acquire)) {
      {
        const std::scoped_lock lock(mutex);
        advance();
      }
      const double elapsed_s = deadline.elapsed_s();
      if (options.side_channel->stopped() || elapsed_s > options.deadline_s) {
        fail(*transfer);
      }
      pause_between_looks(options.may_spin, elapsed_s);
    }
    record.end();
  }
};

class MpiTransfers::TransferWork final : public Work::State {
 public:
  TransferWork(std::shared_ptr<Shared> shared, std::shared_ptr<Transfer> transfer)
      : shared_(std::move(shared)), transfer_(std::move(transfer)) {}

  ~TransferWork() override {
    if (transfer_->done.load(std::memory_order_acquire)) {
      return;
    }
    if (std::uncaught_exceptions() == 0) {
      try {
        shared_->wait(transfer_);
        return;
      } catch (const Error&) {
        // Whoever waits next meets the same trouble and reports it.
      }
    }
    shared_->withdraw(transfer_);
  }

  bool done() override {
    if (!transfer_->done.load(std::memory_order_acquire)) {
      const std::scoped_lock lock(shared_->mutex);
      shared_->advance();
    }
    return transfer_->done.load(std::memory_order_acquire);
  }

  void wait() override { shared_->wait(transfer_); }

 private:
  std::shared_ptr<Shared> shared_;
  std::shared_ptr<Transfer> transfer_;
};

MpiTransfers::MpiTransfers(MpiTransfersOptions options)
    : shared_(std::make_shared<Shared>(std::move(options))) {}

MpiTransfers::~MpiTransfers() {
  {
    const std::scoped_lock lock(shared_->mutex);
    shared_->stop = true;
  }
  shared_->wake.notify_all();
  if (pump_.joinable()) {
    pump_.join();
  }
}

Work MpiTransfers::start(OpKind kind, const TransferOptions& options) {
  const MpiTransfersOptions& own = shared_->options;
  CHECK_GE(options.bytes, 0);
  CHECK_GE(options.peer, 0);
  CHECK_LT(options.peer, static_cast<int>(own.ranks.size()));
  CHECK_NE(options.peer, own.rank);
  auto transfer = std::make_shared<Transfer>();
  transfer->kind = kind;
  transfer->data = options.bytes > 0 ? own.device->host_view(options.buffer) : nullptr;
  transfer->bytes = options.bytes;
  transfer->peer = options.peer;
  if (options.async) {
    transfer->ready = own.device->stream().record();
  } else {
    own.device->stream().synchronize();
  }
  {
    const std::scoped_lock lock(shared_->mutex);
    if (shared_->waiting.size() + shared_->started.size() >= kMaxOpen) {
      throw_error(ErrorCode::kResourceExhausted,
                  "{} on rank {}, group {}: {} transfers are open already", op_kind_name(kind),
                  own.ranks[static_cast<size_t>(own.rank)], own.name, kMaxOpen);
    }
    transfer->sequence = ++shared_->sequence;
    shared_->waiting.push_back(transfer);
    shared_->advance();
  }
  auto state = std::make_shared<TransferWork>(shared_, transfer);
  if (!options.async) {
    state->wait();
    return Work();
  }
  if (!transfer->done) {
    if (!pump_.joinable()) {
      pump_ = std::thread([this] { pump(); });
    }
    shared_->wake.notify_all();
  }
  return Work(std::move(state));
}

void MpiTransfers::pump() {
  pthread_setname_np(pthread_self(), "mpi-p2p");
  const std::shared_ptr<Shared> shared = shared_;
  std::unique_lock lock(shared->mutex);
  while (!shared->stop) {
    if (shared->waiting.empty() && shared->started.empty()) {
      shared->wake.wait(lock);
      continue;
    }
    shared->advance();
    shared->wake.wait_for(lock, kPumpPause);
  }
}

}  // namespace plait
