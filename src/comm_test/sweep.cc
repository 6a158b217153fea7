#include "comm_test/sweep.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <span>

#include <fmt/ranges.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/host.h"
#include "base/statistics.h"
#include "comm/gather_values.h"
#include "comm_test/pattern.h"
#include "comm_test/stall_monitor.h"

namespace plait {
namespace {

constexpr std::array<const char*, kNumTestOps> kNames = {
    "all_reduce", "all_gather", "reduce_scatter", "broadcast", "all_to_all", "send_recv"};

// Durations of a rank's calls, and the check of its last result.
struct RankRow {
  std::vector<float> calls;
  double total_s = 0;
  int64_t wrong = 0, first_wrong = -1;
};

std::string pack(const RankRow& row) {
  std::string bytes(24 + row.calls.size() * sizeof(float), '\0');
  std::memcpy(bytes.data(), &row.total_s, 8);
  std::memcpy(bytes.data() + 8, &row.wrong, 8);
  std::memcpy(bytes.data() + 16, &row.first_wrong, 8);
  std::memcpy(bytes.data() + 24, row.calls.data(), row.calls.size() * sizeof(float));
  return bytes;
}

RankRow unpack(const std::string& bytes) {
  RankRow row;
  CHECK_GE(bytes.size(), size_t{24});
  std::memcpy(&row.total_s, bytes.data(), 8);
  std::memcpy(&row.wrong, bytes.data() + 8, 8);
  std::memcpy(&row.first_wrong, bytes.data() + 16, 8);
  row.calls.resize((bytes.size() - 24) / sizeof(float));
  std::memcpy(row.calls.data(), bytes.data() + 24, row.calls.size() * sizeof(float));
  return row;
}

// The rank that is last most often, over the calls in which somebody was late.
void find_last(const std::vector<RankRow>& ranks, SweepRow& row) {
  std::map<int, int> last;
  double waited = 0;
  for (size_t call = 0; call < static_cast<size_t>(row.iterations); ++call) {
    size_t shortest = 0, longest = 0;
    for (size_t r = 1; r < ranks.size(); ++r) {
      shortest = ranks[r].calls[call] < ranks[shortest].calls[call] ? r : shortest;
      longest = ranks[r].calls[call] > ranks[longest].calls[call] ? r : longest;
    }
    const double spread = ranks[longest].calls[call] - ranks[shortest].calls[call];
    if (spread > std::max(20e-6, 0.25 * ranks[longest].calls[call])) {
      ++last[static_cast<int>(shortest)];
      ++row.late_calls;
      waited += spread;
    }
  }
  for (const auto& [rank, calls] : last) {
    const double share = static_cast<double>(calls) / row.late_calls;
    if (share > row.last_share) {
      row.last_share = share;
      row.last_rank = rank;
    }
  }
  row.last_wait_s = row.late_calls > 0 ? waited / row.late_calls : 0;
}

class Sweeper {
 public:
  Sweeper(World& world, ProcessGroup& group, const SweepOptions& options)
      : device_(world.device()), group_(group), options_(options) {}

  SweepRow run(TestOp op, int64_t bytes);

 private:
  int64_t block_count(TestOp op, int64_t bytes) const;
  void call(TestOp op, const Buffer& input, const Buffer& output, int64_t count);
  int iterations(TestOp op, const Buffer& input, const Buffer& output, int64_t count);
  SweepRow merge(TestOp op, int64_t bytes, const RankRow& mine);

  Device& device_;
  ProcessGroup& group_;
  const SweepOptions& options_;
};

// Elements of one block; at least one.
int64_t Sweeper::block_count(TestOp op, int64_t bytes) const {
  const bool parts =
      op == TestOp::kAllGather || op == TestOp::kReduceScatter || op == TestOp::kAllToAll;
  return std::max<int64_t>(bytes / dtype_size(options_.dtype) / (parts ? group_.size() : 1), 1);
}

void Sweeper::call(TestOp op, const Buffer& input, const Buffer& output, int64_t count) {
  const int64_t bytes = count * dtype_size(options_.dtype);
  const int n = group_.size();
  switch (op) {
    case TestOp::kAllReduce:
      group_.all_reduce({output.ptr(), count, options_.dtype, options_.reduce}).wait();
      return;
    case TestOp::kAllGather:
      group_.all_gather({input.ptr(), output.ptr(), count, options_.dtype}).wait();
      return;
    case TestOp::kReduceScatter:
      group_.reduce_scatter({input.ptr(), output.ptr(), count, options_.dtype}).wait();
      return;
    case TestOp::kBroadcast:
      group_.broadcast({output.ptr(), bytes, options_.root}).wait();
      return;
    case TestOp::kAllToAll:
      group_.all_to_all({input.ptr(), output.ptr(), bytes}).wait();
      return;
    case TestOp::kSendRecv: {
      if (n == 1) {
        device_.stream().copy(output.ptr(), input.ptr(), bytes);
        device_.stream().synchronize();
        return;
      }
      Work sent = group_.send(
          {.buffer = input.ptr(), .bytes = bytes, .peer = (group_.rank() + 1) % n, .async = true});
      group_.recv({.buffer = output.ptr(), .bytes = bytes, .peer = (group_.rank() + n - 1) % n})
          .wait();
      sent.wait();
      return;
    }
  }
}

// As many as fit the budget, the same on every rank.
int Sweeper::iterations(TestOp op, const Buffer& input, const Buffer& output, int64_t count) {
  const double start = now_s();
  int made = 0;
  for (; made < std::max(options_.warmup, 1); ++made) {
    call(op, input, output, count);
    if (options_.budget_s > 0 && made == 0) {
      break;  // one call tells how many more make sense
    }
  }
  double each = (now_s() - start) / std::max(made, 1);
  if (options_.budget_s <= 0) {
    return options_.iterations;
  }
  for (const double other : gather_values(group_, each)) {
    each = std::max(each, other);
  }
  const int fit = static_cast<int>(std::min(options_.budget_s / std::max(each, 1e-7), 1e6));
  for (int i = 0; i < std::min(options_.warmup, fit / 4); ++i) {
    call(op, input, output, count);
  }
  return std::clamp(fit, 3, options_.iterations);
}

SweepRow Sweeper::run(TestOp op, int64_t bytes) {
  const TestPattern pattern(op, options_.dtype, options_.reduce, group_.rank(), group_.size(),
                            options_.root);
  const int64_t count = block_count(op, bytes);
  const int64_t block_bytes = count * dtype_size(options_.dtype);
  Buffer input(device_, block_bytes * pattern.input_blocks(), MemoryCategory::kComm);
  Buffer output(device_, block_bytes * pattern.output_blocks(), MemoryCategory::kComm);
  const std::vector<std::byte> host = pattern.input(count);
  const bool in_place = op == TestOp::kAllReduce || op == TestOp::kBroadcast;
  const auto reset = [&] {
    device_.stream().zero(output.ptr(), output.bytes());
    device_.stream().copy_to_device(in_place ? output.ptr() : input.ptr(), host.data(),
                                    static_cast<int64_t>(host.size()));
    device_.stream().synchronize();
  };
  reset();
  RankRow mine;
  const int calls = iterations(op, input, output, count);
  group_.barrier();
  const double start = now_s();
  double before = start;
  for (int i = 0; i < calls; ++i) {
    call(op, input, output, count);
    const double now = now_s();
    mine.calls.push_back(static_cast<float>(now - before));
    before = now;
  }
  mine.total_s = before - start;
  if (options_.check && pattern.checkable()) {
    reset();
    group_.barrier();
    call(op, input, output, count);
    std::vector<std::byte> got(static_cast<size_t>(output.bytes()));
    device_.stream().copy_to_host(got.data(), output.ptr(), output.bytes());
    device_.stream().synchronize();
    mine.first_wrong = pattern.check(got, count, &mine.wrong);
  }
  SweepRow row = merge(op, bytes, mine);
  row.checked = options_.check && pattern.checkable();
  return row;
}

SweepRow Sweeper::merge(TestOp op, int64_t bytes, const RankRow& mine) {
  std::vector<RankRow> ranks;
  for (const std::string& packed : group_.gather_bytes(pack(mine))) {
    ranks.push_back(unpack(packed));
  }
  SweepRow row;
  row.op = op;
  row.bytes = bytes;
  row.iterations = static_cast<int>(mine.calls.size());
  std::vector<double> longest(mine.calls.size(), 0.0);
  for (size_t r = 0; r < ranks.size(); ++r) {
    for (size_t i = 0; i < longest.size(); ++i) {
      longest[i] = std::max<double>(longest[i], ranks[r].calls[i]);
    }
    row.mean_s = std::max(row.mean_s, ranks[r].total_s / row.iterations);
    row.wrong += ranks[r].wrong;
    if (ranks[r].wrong > 0 && row.wrong_rank < 0) {
      row.wrong_rank = static_cast<int>(r);
      row.first_wrong = ranks[r].first_wrong;
    }
  }
  row.p50_s = quantile(longest, 0.5);
  row.p99_s = quantile(longest, 0.99);
  row.max_s = quantile(longest, 1);
  row.algbw = static_cast<double>(bytes) / std::max(row.mean_s, 1e-9);
  row.busbw = row.algbw * bus_factor(op, group_.size());
  if (ranks.size() > 1) {
    find_last(ranks, row);
  }
  return row;
}

void check_options(const SweepOptions& o, int ranks) {
  if (o.min_bytes < 1 || o.max_bytes < o.min_bytes || o.max_bytes > (int64_t{1} << 40)) {
    throw_error(ErrorCode::kInvalidArgument,
                "sizes {} to {}: the least must be at least 1 and at most the largest", o.min_bytes,
                o.max_bytes);
  }
  if (o.factor < 2 && o.step_bytes < 1) {
    throw_error(ErrorCode::kInvalidArgument, "factor={}: must be at least 2", o.factor);
  }
  if (o.iterations < 1 || o.warmup < 0) {
    throw_error(ErrorCode::kInvalidArgument, "iterations={}, warmup={}: at least 1 and 0",
                o.iterations, o.warmup);
  }
  if (o.root < 0 || o.root >= ranks) {
    throw_error(ErrorCode::kInvalidArgument, "root={}: allowed are ranks 0 to {}", o.root,
                ranks - 1);
  }
}

}  // namespace

const char* test_op_name(TestOp op) {
  return kNames[static_cast<size_t>(op)];
}

TestOp parse_test_op(const std::string& name) {
  const auto found = std::find(kNames.begin(), kNames.end(), name);
  if (found == kNames.end()) {
    throw_error(ErrorCode::kInvalidArgument, "op={}: allowed are {}", name,
                fmt::join(kNames, ", "));
  }
  return static_cast<TestOp>(found - kNames.begin());
}

double bus_factor(TestOp op, int ranks) {
  const double n = std::max(ranks, 1);
  switch (op) {
    case TestOp::kAllReduce:
      return 2 * (n - 1) / n;
    case TestOp::kAllGather:
    case TestOp::kReduceScatter:
    case TestOp::kAllToAll:
      return (n - 1) / n;
    case TestOp::kBroadcast:
    case TestOp::kSendRecv:
      return 1;
  }
  return 1;
}

SweepResult run_sweep(World& world, ProcessGroup& group, const SweepOptions& options,
                      const std::function<void(const SweepRow&)>& progress) {
  check_options(options, group.size());
  const StallMonitor monitor;
  std::vector<TestOp> ops = options.ops;
  for (int op = 0; options.ops.empty() && op < kNumTestOps; ++op) {
    ops.push_back(static_cast<TestOp>(op));
  }
  SweepResult result;
  Sweeper sweeper(world, group, options);
  for (const TestOp op : ops) {
    for (int64_t bytes = options.min_bytes; bytes <= options.max_bytes;
         bytes = options.step_bytes > 0 ? bytes + options.step_bytes : bytes * options.factor) {
      SweepRow row = sweeper.run(op, bytes);
      if (group.rank() == 0) {
        progress(row);
        result.rows.push_back(row);
      }
    }
  }
  result.ranks = group.size();
  result.hosts = group.gather_bytes(host_name());
  result.stalled_share = gather_values(group, monitor.stalled_share());
  return result;
}

}  // namespace plait
