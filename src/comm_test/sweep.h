// Collectives over a range of sizes on any transport: time of every call, check of every element,
// and who arrives last.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "comm/process_group.h"

namespace plait {

enum class TestOp : uint8_t {
  kAllReduce,
  kAllGather,
  kReduceScatter,
  kBroadcast,
  kAllToAll,
  kSendRecv,  // every rank sends to the next and receives from the one before
};
constexpr int kNumTestOps = 6;
const char* test_op_name(TestOp op);  // "all_reduce", ...
// Errors: kInvalidArgument with the names that exist.
TestOp parse_test_op(const std::string& name);

struct SweepOptions {
  std::vector<TestOp> ops;  // empty: all
  int64_t min_bytes = 8, max_bytes = int64_t{16} << 20;
  int64_t step_bytes = 0;  // > 0: sizes grow by this; else by `factor`
  int factor = 4;
  DType dtype = DType::kF32;
  ReduceOp reduce = ReduceOp::kSum;  // of all_reduce
  int root = 0;                      // of broadcast
  int iterations = 20;
  int warmup = 5;
  bool check = true;
  double budget_s = 0.4;  // of one size of one op: fewer iterations where they take longer; 0: none
};

// One size of one op. Sizes count as in nccl-tests and hccl_test: what all_reduce reduces, what
// all_gather ends with, what reduce_scatter starts from, what a rank hands to all_to_all.
struct SweepRow {
  TestOp op = TestOp::kAllReduce;
  int64_t bytes = 0;
  int iterations = 0;
  double mean_s = 0;                       // of back-to-back calls, on the slowest rank
  double p50_s = 0, p99_s = 0, max_s = 0;  // of one call, the longest of the ranks
  double algbw = 0;                        // bytes / mean, bytes/s
  double busbw = 0;                        // algbw times 2 (n-1)/n, (n-1)/n or 1
  int64_t wrong = 0;                       // elements, of all ranks
  bool checked = false;                    // false: values would overflow the type, or not asked
  int wrong_rank = -1;
  int64_t first_wrong = -1;  // index on that rank
  // A rank that arrives last is the one for which the call is short: the others wait for it.
  int last_rank = -1;
  double last_share = 0;   // of the calls in which somebody was late
  double last_wait_s = 0;  // mean of what the others waited
  int late_calls = 0;
};

struct SweepResult {
  int ranks = 0;
  std::vector<std::string> hosts;     // by rank
  std::vector<double> stalled_share;  // by rank: of the time, its process did not run
  std::vector<SweepRow> rows;
};

// n ranks: factor from algorithm to bus bandwidth.
double bus_factor(TestOp op, int ranks);

// Collective over `group`, all ranks. `progress` is called on rank 0 after each row. The result is
// complete on rank 0 and empty on the others. Errors: kInvalidArgument; those of the transport.
SweepResult run_sweep(World& world, ProcessGroup& group, const SweepOptions& options,
                      const std::function<void(const SweepRow&)>& progress);

}  // namespace plait
