#include "comm/mpi/mpi_group.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <utility>

#include "base/error.h"
#include "comm/reduce.h"

namespace plait {
namespace {

// Up to this many bytes of all ranks together, everybody gets everything and reduces it alone.
constexpr int64_t kSmallBytes = 65536;
// Staging memory of a reduction, and the unit in which large ones proceed.
constexpr int64_t kSegmentBytes = int64_t{8} << 20;
constexpr double kTableWaitS = 1;

}  // namespace

MpiGroup::MpiGroup(Options options, const MpiContext& context)
    : options_(std::move(options)),
      context_(context),
      record_(options_.ranks[static_cast<size_t>(options_.rank)], options_.name, options_.ranks),
      transfers_({options_.name, options_.ranks, options_.rank, options_.transfers, context.device,
                  context.side_channel, context.deadline_s, context.may_spin}) {
  plan_levels();
}

// The communicators stay until MPI_Finalize: freeing them is collective, and a group may end while
// a peer is lost.
MpiGroup::~MpiGroup() {
  progress_.reset();
  context_.device->ledger().add(MemoryCategory::kComm, -staging_bytes_);
}

void MpiGroup::plan_levels() {
  const int n = size();
  for (int i = 0; i < n; ++i) {
    everybody_.members.push_back(i);
  }
  everybody_.place = rank();
  int per_host = 0;
  while (per_host < n && options_.hosts[static_cast<size_t>(per_host)] == options_.hosts[0]) {
    ++per_host;
  }
  two_levels_ = per_host > 1 && per_host < n && n % per_host == 0;
  for (int i = 0; i < n && two_levels_; ++i) {
    const bool starts_host = i % per_host == 0;
    const auto at = static_cast<size_t>(i);
    two_levels_ = i == 0 || (options_.hosts[at] == options_.hosts[at - 1]) != starts_host;
  }
  if (!two_levels_) {
    return;
  }
  const int host = rank() / per_host;
  const int place = rank() % per_host;
  for (int i = 0; i < per_host; ++i) {
    host_team_.members.push_back(host * per_host + i);
  }
  for (int i = place; i < n; i += per_host) {
    cross_team_.members.push_back(i);
  }
  host_team_.place = place;
  cross_team_.place = host;
}

Work MpiGroup::all_reduce(const AllReduceOptions& options) {
  return run(make_operation(options, *context_.device), options.async);
}

Work MpiGroup::reduce_scatter(const ReduceScatterOptions& options) {
  return run(make_operation(options, *context_.device), options.async);
}

Work MpiGroup::all_gather(const AllGatherOptions& options) {
  return run(make_operation(options, *context_.device), options.async);
}

Work MpiGroup::broadcast(const BroadcastOptions& options) {
  CHECK_GE(options.root, 0);
  CHECK_LT(options.root, size());
  return run(make_operation(options, *context_.device), options.async);
}

Work MpiGroup::all_to_all(const AllToAllOptions& options) {
  return run(make_operation(options, *context_.device), options.async);
}

void MpiGroup::barrier() {
  Operation operation;
  operation.kind = OpKind::kBarrier;
  run(operation, false);
}

Work MpiGroup::run(const Operation& operation, bool async) {
  if (!async) {
    finish_async();
    context_.device->stream().synchronize();
    execute(operation, context_.may_spin);
    return Work();
  }
  if (progress_ == nullptr) {
    ProgressOptions options;
    options.thread_name = "comm-" + name();
    options.label = fmt::format("group {}, rank {}", name(), record_.rank());
    options.deadline_s = context_.deadline_s;
    options.cancel = [this] { cancelled_ = true; };
    progress_ = std::make_unique<ProgressThread>(std::move(options));
  }
  return progress_->submit([this, operation, ready = context_.device->stream().record()] {
    ready.wait();
    execute(operation, false);
  });
}

void MpiGroup::finish_async() {
  if (progress_ != nullptr && !progress_->idle()) {
    progress_->drain();
  }
}

void MpiGroup::execute(const Operation& operation, bool may_spin) {
  may_spin_ = may_spin;
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
      barrier_now(operation);
      break;
  }
  record_.end();
}

void MpiGroup::all_reduce_now(const Operation& operation) {
  if (operation.bytes() * size() <= kSmallBytes) {
    all_reduce_small(operation);
    return;
  }
  // 16-bit sums must stay in f32 until the last addition, so they do not stop half-way at a host.
  const bool by_host = two_levels_ && dtype_size(operation.dtype) >= 4;
  const int64_t step = kSegmentBytes / operation.element_bytes();
  for (int64_t begin = 0; begin < operation.count; begin += step) {
    const Span segment{operation.output + begin * operation.element_bytes(),
                       std::min(step, operation.count - begin)};
    if (by_host) {
      const Span mine = reduce_parts(operation, host_team_, segment);
      reduce_parts(operation, cross_team_, mine);
      gather_parts(operation, cross_team_, mine);
      gather_parts(operation, host_team_, segment);
    } else {
      reduce_parts(operation, everybody_, segment);
      gather_parts(operation, everybody_, segment);
    }
  }
}

void MpiGroup::all_reduce_small(const Operation& operation) {
  MpiRequests requests(options_.collectives);
  const int64_t bytes = operation.bytes();
  std::byte* const received = staging(bytes * size());
  std::vector<const std::byte*> sources;
  for (int i = 0; i < size(); ++i) {
    sources.push_back(received + i * bytes);
    if (i != rank()) {
      requests.recv(i, received + i * bytes, bytes);
    }
  }
  copy_unless_same(received + rank() * bytes, operation.input, bytes);
  for (int step = 1; step < size(); ++step) {
    requests.send((rank() + step) % size(), received + rank() * bytes, bytes);
  }
  complete(requests, operation);
  std::byte* const result = operation.output;
  reduce_in_order({sources, {&result, 1}, operation.count, operation.dtype, operation.op});
}

MpiGroup::Span MpiGroup::part_of(Span span, const Operation& operation, int parts, int index) {
  const int64_t part = (span.count + parts - 1) / parts;
  const int64_t begin = std::min(span.count, part * index);
  return {span.data + begin * operation.element_bytes(), std::min(part, span.count - begin)};
}

MpiGroup::Span MpiGroup::reduce_parts(const Operation& operation, const Team& team, Span span) {
  const Span mine = part_of(span, operation, team.size(), team.place);
  MpiRequests requests(options_.collectives);
  const int64_t bytes = mine.count * operation.element_bytes();
  std::byte* const received = staging(bytes * team.size());
  std::vector<const std::byte*> sources(team.members.size());
  for (int step = 1; step < team.size(); ++step) {
    const int from = (team.place + team.size() - step) % team.size();
    sources[static_cast<size_t>(from)] = received + from * bytes;
    requests.recv(team.members[static_cast<size_t>(from)], received + from * bytes, bytes);
  }
  sources[static_cast<size_t>(team.place)] = mine.data;
  for (int step = 1; step < team.size(); ++step) {
    const int to = (team.place + step) % team.size();
    const Span part = part_of(span, operation, team.size(), to);
    requests.send(team.members[static_cast<size_t>(to)], part.data,
                  part.count * operation.element_bytes());
  }
  complete(requests, operation);
  std::byte* const result = mine.data;
  reduce_in_order({sources, {&result, 1}, mine.count, operation.dtype, operation.op});
  return mine;
}

void MpiGroup::gather_parts(const Operation& operation, const Team& team, Span span) {
  MpiRequests requests(options_.collectives);
  for (int step = 1; step < team.size(); ++step) {
    const int from = (team.place + team.size() - step) % team.size();
    const Span part = part_of(span, operation, team.size(), from);
    requests.recv(team.members[static_cast<size_t>(from)], part.data,
                  part.count * operation.element_bytes());
  }
  const Span mine = part_of(span, operation, team.size(), team.place);
  for (int step = 1; step < team.size(); ++step) {
    const int to = (team.place + step) % team.size();
    requests.send(team.members[static_cast<size_t>(to)], mine.data,
                  mine.count * operation.element_bytes());
  }
  complete(requests, operation);
}

void MpiGroup::reduce_scatter_now(const Operation& operation) {
  // In segments of the parts, so that staging stays small. With two levels, a rank first collects
  // this host's sum for the ranks in its place on every host, then the hosts' sums for itself.
  const bool by_host = two_levels_ && dtype_size(operation.dtype) >= 4;
  const Team& first = by_host ? host_team_ : everybody_;
  const int hosts = by_host ? cross_team_.size() : 1;
  const int64_t size_bytes = operation.element_bytes();
  const int64_t step = std::max<int64_t>(1, kSegmentBytes / size_bytes / size());
  for (int64_t begin = 0; begin < operation.count; begin += step) {
    const int64_t count = std::min(step, operation.count - begin);
    const int64_t bytes = count * size_bytes;
    const auto part = [&](int owner) {
      return operation.input + (owner * operation.count + begin) * size_bytes;
    };
    std::byte* const result = operation.output + begin * size_bytes;
    std::byte* const received = staging(bytes * (hosts * first.size() + 2 * hosts));
    std::byte* const partial = received + bytes * hosts * first.size();
    MpiRequests requests(options_.collectives);
    // Part `owner` goes to this host's member in the owner's place.
    const auto exchange = [&](const auto& post) {
      for (int owner = 0; owner < hosts * first.size(); ++owner) {
        if (owner % first.size() != first.place) {
          post(first.members[static_cast<size_t>(owner % first.size())], owner);
        }
      }
    };
    exchange([&](int peer, int owner) { requests.recv(peer, received + owner * bytes, bytes); });
    exchange([&](int peer, int owner) { requests.send(peer, part(owner), bytes); });
    complete(requests, operation);
    for (int host = 0; host < hosts; ++host) {
      std::vector<const std::byte*> sources;
      sources.reserve(first.members.size());
      for (int i = 0; i < first.size(); ++i) {
        sources.push_back(i == first.place ? part(host * first.size() + i)
                                           : received + (host * first.size() + i) * bytes);
      }
      std::byte* const destination = by_host ? partial + host * bytes : result;
      reduce_in_order({sources, {&destination, 1}, count, operation.dtype, operation.op});
    }
    if (by_host) {
      exchange_partials(operation, {partial, count}, result);
    }
  }
}

void MpiGroup::exchange_partials(const Operation& operation, Span partial, std::byte* result) {
  // partial holds one sum for each host, and after them there is room for as many received ones.
  const Team& team = cross_team_;
  const int64_t bytes = partial.count * operation.element_bytes();
  std::byte* const received = partial.data + team.size() * bytes;
  MpiRequests requests(options_.collectives);
  std::vector<const std::byte*> sources;
  for (int i = 0; i < team.size(); ++i) {
    sources.push_back(i == team.place ? partial.data + i * bytes : received + i * bytes);
    if (i != team.place) {
      requests.recv(team.members[static_cast<size_t>(i)], received + i * bytes, bytes);
    }
  }
  for (int step = 1; step < team.size(); ++step) {
    const int to = (team.place + step) % team.size();
    requests.send(team.members[static_cast<size_t>(to)], partial.data + to * bytes, bytes);
  }
  complete(requests, operation);
  reduce_in_order({sources, {&result, 1}, partial.count, operation.dtype, operation.op});
}

void MpiGroup::all_gather_now(const Operation& operation) {
  const int64_t bytes = operation.bytes();
  const auto part = [&](int owner) { return operation.output + owner * bytes; };
  copy_unless_same(part(rank()), operation.input, bytes);
  const bool by_host = two_levels_ && bytes * size() > kSmallBytes;
  const Team& first = by_host ? cross_team_ : everybody_;
  MpiRequests requests(options_.collectives);
  for (int step = 1; step < first.size(); ++step) {
    const int from =
        first.members[static_cast<size_t>((first.place + first.size() - step) % first.size())];
    requests.recv(from, part(from), bytes);
  }
  for (int step = 1; step < first.size(); ++step) {
    requests.send(first.members[static_cast<size_t>((first.place + step) % first.size())],
                  part(rank()), bytes);
  }
  complete(requests, operation);
  if (!by_host) {
    return;
  }
  // My column (one part of each host) to the neighbours on this host, theirs to me.
  MpiRequests local(options_.collectives);
  for (const int peer : host_team_.members) {
    if (peer == rank()) {
      continue;
    }
    for (int host = 0; host < cross_team_.size(); ++host) {
      const int per_host = host_team_.size();
      local.recv(peer, part(host * per_host + peer % per_host), bytes);
      local.send(peer, part(host * per_host + rank() % per_host), bytes);
    }
  }
  complete(local, operation);
}

void MpiGroup::broadcast_now(const Operation& operation) {
  // A binomial tree over the distance from the root.
  const int n = size();
  const int place = (rank() - operation.root + n) % n;
  int bit = 1;
  while (bit < n && (place & bit) == 0) {
    bit <<= 1;
  }
  if (place != 0) {
    MpiRequests requests(options_.collectives);
    requests.recv((place - bit + operation.root) % n, operation.output, operation.bytes());
    complete(requests, operation);
  }
  MpiRequests requests(options_.collectives);
  for (bit >>= 1; bit > 0; bit >>= 1) {
    if (place + bit < n) {
      requests.send((place + bit + operation.root) % n, operation.input, operation.bytes());
    }
  }
  complete(requests, operation);
}

void MpiGroup::all_to_all_now(const Operation& operation) {
  const int64_t bytes = operation.bytes();
  const int n = size();
  MpiRequests requests(options_.collectives);
  for (int step = 1; step < n; ++step) {
    const int from = (rank() + n - step) % n;
    requests.recv(from, operation.output + from * bytes, bytes);
  }
  for (int step = 1; step < n; ++step) {
    const int to = (rank() + step) % n;
    requests.send(to, operation.input + to * bytes, bytes);
  }
  copy_unless_same(operation.output + rank() * bytes, operation.input + rank() * bytes, bytes);
  complete(requests, operation);
}

void MpiGroup::barrier_now(const Operation& operation) {
  // Dissemination: after step k everybody has heard, directly or not, from 2^k ranks.
  const int n = size();
  for (int distance = 1; distance < n; distance *= 2) {
    MpiRequests requests(options_.collectives);
    requests.recv((rank() + n - distance) % n, nullptr, 0);
    requests.send((rank() + distance) % n, nullptr, 0);
    complete(requests, operation);
  }
}

std::vector<std::string> MpiGroup::gather_bytes(const std::string& mine) {
  finish_async();
  may_spin_ = context_.may_spin;
  Operation operation;
  operation.kind = OpKind::kGatherBytes;
  operation.count = static_cast<int64_t>(mine.size());
  record_.begin(operation.kind, ++sequence_);
  const auto n = static_cast<size_t>(size());
  std::vector<int64_t> sizes(n, operation.count);
  std::vector<std::string> all(n);
  const auto to_all = [&](const void* data, int64_t bytes, auto&& place_of) {
    MpiRequests requests(options_.collectives);
    for (int i = 0; i < size(); ++i) {
      if (i != rank()) {
        const auto [at, room] = place_of(static_cast<size_t>(i));
        requests.recv(i, static_cast<std::byte*>(at), room);
      }
    }
    for (int i = 0; i < size(); ++i) {
      if (i != rank()) {
        requests.send(i, static_cast<const std::byte*>(data), bytes);
      }
    }
    complete(requests, operation);
  };
  to_all(&operation.count, sizeof(int64_t),
         [&](size_t i) { return std::pair<void*, int64_t>(&sizes[i], sizeof(int64_t)); });
  to_all(mine.data(), operation.count, [&](size_t i) {
    all[i].resize(static_cast<size_t>(sizes[i]));
    return std::pair<void*, int64_t>(all[i].data(), sizes[i]);
  });
  all[static_cast<size_t>(rank())] = mine;
  record_.end();
  return all;
}

std::byte* MpiGroup::staging(int64_t bytes) {
  if (staging_bytes_ < bytes) {
    staging_ = std::make_unique_for_overwrite<std::byte[]>(static_cast<size_t>(bytes));
    context_.device->ledger().add(MemoryCategory::kComm, bytes - staging_bytes_);
    staging_bytes_ = bytes;
  }
  return staging_.get();
}

void MpiGroup::complete(MpiRequests& requests, const Operation& operation) {
  const auto stopped = [this] {
    return cancelled_.load(std::memory_order_relaxed) || context_.side_channel->stopped();
  };
  const MpiWaitResult result = requests.wait({context_.deadline_s, may_spin_, stopped});
  if (result != MpiWaitResult::kDone) {
    fail(requests, operation, result);
  }
}

void MpiGroup::fail(MpiRequests& requests, const Operation& operation, MpiWaitResult result) {
  const std::vector<int> missing = requests.pending_peers();
  // Open sends and receives still know the staging memory.
  static_cast<void>(staging_.release());
  std::map<int, std::string> table;
  if (result == MpiWaitResult::kDeadline) {
    table = context_.side_channel->operations(kTableWaitS);
  }
  // Another rank may have been faster in saying the same.
  if (context_.side_channel->stopped()) {
    throw_error(ErrorCode::kCancelled, "rank {} was told to stop: {}", record_.rank(),
                context_.side_channel->stop_reason());
  }
  if (result == MpiWaitResult::kStopped) {
    throw_error(ErrorCode::kCancelled, "rank {} left group {}", record_.rank(), name());
  }
  std::string peers;
  for (const int peer : missing) {
    const int world_rank = options_.ranks[static_cast<size_t>(peer)];
    const std::string state = table.count(world_rank) != 0 ? table[world_rank] : "not known";
    peers += fmt::format("{}rank {} (which is {})", peers.empty() ? "" : ", ", world_rank, state);
  }
  throw_error(ErrorCode::kComm,
              "{} (sequence {}, group {}, {} B) on rank {}: waited {:.1f} s, the limit, for {}; if "
              "that is slow rather than stuck, raise the deadline",
              op_kind_name(operation.kind), sequence_, name(), operation.bytes(), record_.rank(),
              context_.deadline_s, peers);
}

}  // namespace plait
