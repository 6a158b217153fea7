#include "comm/local/local_group.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <thread>
#include <utility>

#include "base/error.h"
#include "comm/reduce.h"

namespace plait {
namespace {

// Tries before the clock is looked at: most waits between spinning ranks are shorter.
constexpr int kFirstPolls = 4000;
constexpr int kPollsWithoutPause = 200;

}  // namespace

LocalGroup::LocalGroup(std::shared_ptr<GroupState> state, int group_rank, Device& device)
    : state_(std::move(state)),
      rank_(group_rank),
      size_(state_->size()),
      world_rank_(state_->ranks()[static_cast<size_t>(group_rank)]),
      device_(device),
      record_(state_->record(group_rank)),
      slot_bytes_(state_->spins() ? kSpinningSlotBytes : kSlotBytes),
      sources_(static_cast<size_t>(size_)),
      destinations_(static_cast<size_t>(size_)),
      transfers_(state_, group_rank, device) {}

LocalGroup::~LocalGroup() = default;

Work LocalGroup::all_reduce(const AllReduceOptions& options) {
  return run(make_operation(options, device_), options.async);
}

Work LocalGroup::reduce_scatter(const ReduceScatterOptions& options) {
  return run(make_operation(options, device_), options.async);
}

Work LocalGroup::all_gather(const AllGatherOptions& options) {
  return run(make_operation(options, device_), options.async);
}

Work LocalGroup::broadcast(const BroadcastOptions& options) {
  CHECK_GE(options.root, 0);
  CHECK_LT(options.root, size_);
  return run(make_operation(options, device_), options.async);
}

Work LocalGroup::all_to_all(const AllToAllOptions& options) {
  return run(make_operation(options, device_), options.async);
}

Work LocalGroup::send(const TransferOptions& options) {
  return transfers_.send(options);
}

Work LocalGroup::recv(const TransferOptions& options) {
  return transfers_.recv(options);
}

void LocalGroup::barrier() {
  Operation operation;
  operation.kind = OpKind::kBarrier;
  run(operation, false);
}

std::vector<std::string> LocalGroup::gather_bytes(const std::string& mine) {
  std::vector<std::string> all(static_cast<size_t>(size_));
  finish_async();
  spin_s_ = state_->world().options().spin_s;
  gather_bytes_now(mine, &all);
  return all;
}

ProgressThread& LocalGroup::progress() {
  if (progress_ == nullptr) {
    ProgressOptions options;
    options.thread_name = "comm-" + name();
    options.label = "group " + name() + ", rank " + std::to_string(world_rank_);
    options.deadline_s = state_->world().options().deadline_s;
    options.cancel = [this] {
      cancelled_ = true;
      state_->ring_all();
    };
    progress_ = std::make_unique<ProgressThread>(std::move(options));
  }
  return *progress_;
}

void LocalGroup::finish_async() {
  if (progress_ != nullptr && !progress_->idle()) {
    progress_->drain();
  }
}

Work LocalGroup::run(const Operation& operation, bool async) {
  if (async) {
    return progress().submit([this, operation, ready = device_.stream().record()] {
      ready.wait();
      execute(operation, 0);
    });
  }
  finish_async();
  device_.stream().synchronize();
  execute(operation, state_->world().options().spin_s);
  return Work();
}

void LocalGroup::execute(const Operation& operation, double spin_s) {
  spin_s_ = spin_s;
  record_.begin(operation.kind, ++sequence_, {operation.signature(), operation.bytes()});
  switch (operation.kind) {
    case OpKind::kAllReduce:
      all_reduce_now(operation);
      break;
    case OpKind::kReduceScatter:
      reduce_scatter_now(operation);
      break;
    case OpKind::kAllGather:
      all_gather_now(operation);
      break;
    case OpKind::kBroadcast:
      broadcast_now(operation);
      break;
    case OpKind::kAllToAll:
      all_to_all_now(operation);
      break;
    default:
      exchange(operation);
      break;
  }
  record_.end();
}

void LocalGroup::all_reduce_now(const Operation& operation) {
  const auto n = static_cast<size_t>(size_);
  const int64_t bytes = operation.bytes();
  if (bytes <= slot_bytes_) {
    copy_unless_same(data_of(rank_), operation.input, bytes);
    exchange(operation);
    for (size_t i = 0; i < n; ++i) {
      sources_[i] = data_of(static_cast<int>(i));
    }
    std::byte* const destination = operation.output;
    reduce_in_order({sources_, {&destination, 1}, operation.count, operation.dtype, operation.op});
    return;
  }
  // Rank r reduces part r of everybody's buffer and stores the result into everybody's buffer: no
  // other rank reads or writes that part in between.
  post_pointers(operation);
  exchange(operation);
  const int64_t align = 128 / operation.element_bytes();
  const int64_t part = (operation.count + size_ * align - 1) / (size_ * align) * align;
  const int64_t begin = std::min(operation.count, part * rank_);
  const int64_t count = std::min(part, operation.count - begin);
  begin_touching();
  for (size_t i = 0; i < n; ++i) {
    destinations_[i] =
        slot(static_cast<int>(i)).pointers().output + begin * operation.element_bytes();
    sources_[i] = destinations_[i];
  }
  reduce_in_order({sources_, destinations_, count, operation.dtype, operation.op});
  end_touching();
  leave(operation);
}

void LocalGroup::reduce_scatter_now(const Operation& operation) {
  const int64_t bytes = operation.bytes();
  const bool is_small = bytes * size_ <= slot_bytes_;
  if (is_small) {
    copy_unless_same(data_of(rank_), operation.input, bytes * size_);
  } else {
    post_pointers(operation);
  }
  exchange(operation);
  if (!is_small) {
    begin_touching();
  }
  for (int i = 0; i < size_; ++i) {
    sources_[static_cast<size_t>(i)] =
        (is_small ? data_of(i) : slot(i).pointers().input) + bytes * rank_;
  }
  std::byte* const destination = operation.output;
  reduce_in_order({sources_, {&destination, 1}, operation.count, operation.dtype, operation.op});
  if (!is_small) {
    end_touching();
    leave(operation);
  }
}

void LocalGroup::all_gather_now(const Operation& operation) {
  const int64_t bytes = operation.bytes();
  const bool is_small = bytes <= slot_bytes_;
  if (is_small) {
    copy_unless_same(data_of(rank_), operation.input, bytes);
  } else {
    post_pointers(operation);
  }
  // My own part needs no peer: it overlaps with their arrival.
  copy_unless_same(operation.output + bytes * rank_, operation.input, bytes);
  exchange(operation);
  if (!is_small) {
    begin_touching();
  }
  for (int step = 1; step < size_; ++step) {
    const int peer = (rank_ + step) % size_;
    copy_unless_same(operation.output + bytes * peer,
                     is_small ? data_of(peer) : slot(peer).pointers().input, bytes);
  }
  if (!is_small) {
    end_touching();
    leave(operation);
  }
}

void LocalGroup::broadcast_now(const Operation& operation) {
  const int64_t bytes = operation.bytes();
  const bool is_small = bytes <= slot_bytes_;
  if (is_small && rank_ == operation.root) {
    copy_unless_same(data_of(rank_), operation.input, bytes);
  } else if (!is_small) {
    post_pointers(operation);
  }
  exchange(operation);
  if (is_small) {
    if (rank_ != operation.root) {
      copy_unless_same(operation.output, data_of(operation.root), bytes);
    }
    return;
  }
  begin_touching();
  copy_unless_same(operation.output, slot(operation.root).pointers().input, bytes);
  end_touching();
  leave(operation);
}

void LocalGroup::all_to_all_now(const Operation& operation) {
  const int64_t bytes = operation.bytes();
  const bool is_small = bytes * size_ <= slot_bytes_;
  if (is_small) {
    copy_unless_same(data_of(rank_), operation.input, bytes * size_);
  } else {
    post_pointers(operation);
  }
  exchange(operation);
  if (!is_small) {
    begin_touching();
  }
  for (int step = 0; step < size_; ++step) {
    const int peer = (rank_ + step) % size_;
    const std::byte* source = is_small ? data_of(peer) : slot(peer).pointers().input;
    copy_unless_same(operation.output + bytes * peer, source + bytes * rank_, bytes);
  }
  if (!is_small) {
    end_touching();
    leave(operation);
  }
}

void LocalGroup::gather_bytes_now(const std::string& mine, std::vector<std::string>* all) {
  Operation operation;
  operation.kind = OpKind::kGatherBytes;
  record_.begin(operation.kind, ++sequence_);
  std::string copy = mine;
  operation.input = reinterpret_cast<std::byte*>(copy.data());
  slot(rank_).set_pointers({operation.input, nullptr, static_cast<int64_t>(copy.size())});
  exchange(operation);
  begin_touching();
  for (int i = 0; i < size_; ++i) {
    const Slot::Pointers from = slot(i).pointers();
    (*all)[static_cast<size_t>(i)].assign(reinterpret_cast<const char*>(from.input),
                                          static_cast<size_t>(from.bytes));
  }
  end_touching();
  leave(operation);
  record_.end();
}

void LocalGroup::post_pointers(const Operation& operation) {
  slot(rank_).set_pointers({operation.input, operation.output, 0});
}

void LocalGroup::exchange(const Operation& operation) {
  if (state_->dead() || state_->world().aborted()) {
    fail_stopped();
  }
  Slot& mine = slot(rank_);
  mine.signature = operation.signature();
  mine.posted.store(sequence_, std::memory_order_release);
  state_->arrived(state_->first_exchange());
  const uint64_t parity = sequence_ & 1U;
  await(operation, [&](int peer) {
    return state_->member(peer).slots[parity].posted.load(std::memory_order_acquire) >= sequence_;
  });
  check_signatures(operation);
}

void LocalGroup::leave(const Operation& operation) {
  ++num_leaves_;
  state_->member(rank_).left.store(num_leaves_, std::memory_order_release);
  state_->arrived(state_->second_exchange());
  await(operation, [&](int peer) {
    return state_->member(peer).left.load(std::memory_order_acquire) >= num_leaves_;
  });
}

template <typename Arrived>
void LocalGroup::await(const Operation& operation, Arrived arrived) {
  int peer = 0;
  const auto ready = [&] {
    while (peer < size_ && (peer == rank_ || arrived(peer))) {
      ++peer;
    }
    return peer == size_;
  };
  if (spin_s_ > 0) {
    for (int i = 0; i < kFirstPolls; ++i) {
      if (ready()) {
        return;
      }
      if (i >= kPollsWithoutPause) {
        cpu_relax();
      }
    }
  }
  const auto stopped = [&] {
    return cancelled_.load(std::memory_order_relaxed) || state_->dead() ||
           state_->world().aborted();
  };
  switch (state_->bell().wait({spin_s_, state_->world().options().deadline_s}, ready, stopped)) {
    case WaitResult::kReady:
      return;
    case WaitResult::kStopped:
      fail_stopped();
    case WaitResult::kDeadline:
      break;
  }
  std::vector<int> missing;
  for (int i = 0; i < size_; ++i) {
    if (i != rank_ && !arrived(i)) {
      missing.push_back(i);
    }
  }
  fail_deadline(operation, missing);
}

void LocalGroup::begin_touching() {
  std::atomic<uint32_t>& touching = state_->member(rank_).touching;
  touching.store(1, std::memory_order_seq_cst);
  if (state_->dead()) {
    touching.store(0, std::memory_order_release);
    fail_stopped();
  }
}

void LocalGroup::end_touching() {
  state_->member(rank_).touching.store(0, std::memory_order_release);
}

void LocalGroup::check_signatures(const Operation& operation) {
  const uint64_t mine = operation.signature();
  for (int peer = 0; peer < size_; ++peer) {
    const uint64_t theirs = slot(peer).signature;
    if (theirs == mine) {
      continue;
    }
    const std::string reason = fmt::format(
        "group {}, sequence {}: rank {} called {} where rank {} called {}; every rank of a group "
        "must call the same operations with the same sizes",
        name(), sequence_, world_rank_, describe_signature(mine),
        state_->ranks()[static_cast<size_t>(peer)], describe_signature(theirs));
    state_->kill(reason);
    throw Error(ErrorCode::kComm, reason);
  }
}

void LocalGroup::wait_until_untouched() {
  for (int peer = 0; peer < size_; ++peer) {
    while (state_->member(peer).touching.load(std::memory_order_acquire) != 0) {
      std::this_thread::yield();
    }
  }
}

void LocalGroup::fail_stopped() {
  state_->kill(fmt::format("rank {} stopped", world_rank_));
  wait_until_untouched();
  state_->throw_stopped(world_rank_, !cancelled_);
}

void LocalGroup::fail_deadline(const Operation& operation, const std::vector<int>& missing) {
  const double limit_s = state_->world().options().deadline_s;
  std::string peers;
  for (const int peer : missing) {
    const int rank = state_->ranks()[static_cast<size_t>(peer)];
    peers += fmt::format("{}rank {} (which is {})", peers.empty() ? "" : ", ", rank,
                         describe_operations(rank));
  }
  const std::string reason = fmt::format(
      "{} (sequence {}, group {}, {} B) on rank {}: waited {:.1f} s, the limit, for {}; if that is "
      "slow rather than stuck, raise the deadline",
      op_kind_name(operation.kind), sequence_, name(), operation.bytes(), world_rank_, limit_s,
      peers);
  state_->kill(reason);
  wait_until_untouched();
  throw Error(ErrorCode::kComm, reason);
}

}  // namespace plait
