#include <gtest/gtest.h>

#include <cstring>
#include <mutex>
#include <set>

#include "base/error.h"
#include "comm/rank_runner.h"
#include "comm/world_groups.h"
#include "comm_test/pattern.h"
#include "comm_test/report.h"

namespace plait {
namespace {

SweepResult sweep(int ranks, const SweepOptions& options, const std::string& device = "cpu") {
  SweepResult result;
  RankRunnerOptions run;
  run.ranks = ranks;
  run.device = device;
  run.threads_per_rank = 1;
  run_ranks(run, [&](World& world) {
    const auto group = create_world_group(world, "all");
    SweepResult mine = run_sweep(world, *group, options, [](const SweepRow&) {});
    if (world.rank() == 0) {
      result = std::move(mine);
    }
  });
  return result;
}

SweepOptions quick() {
  SweepOptions o;
  o.min_bytes = 8;
  o.max_bytes = 4096;
  o.factor = 8;
  o.iterations = 5;
  o.warmup = 1;
  return o;
}

TEST(Sweep, EveryCollectiveOnEveryTransportTypeIsChecked) {
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16, DType::kI32}) {
    for (const int ranks : {1, 2, 3, 4}) {
      SweepOptions options = quick();
      options.dtype = dtype;
      options.root = ranks - 1;
      const SweepResult result = sweep(ranks, options);
      EXPECT_EQ(result.rows.size(), size_t{kNumTestOps} * 4);
      EXPECT_EQ(static_cast<int>(result.hosts.size()), ranks);
      for (const SweepRow& row : result.rows) {
        EXPECT_TRUE(row.checked);
        EXPECT_EQ(row.wrong, 0) << test_op_name(row.op) << " " << row.bytes << " "
                                << dtype_name(dtype) << " " << ranks;
        EXPECT_GT(row.busbw + (ranks == 1 ? 1 : 0), 0);
        EXPECT_LE(row.p50_s, row.p99_s);
        EXPECT_LE(row.p99_s, row.max_s);
      }
    }
  }
}

TEST(Sweep, MaximumAndGuard) {
  SweepOptions options = quick();
  options.reduce = ReduceOp::kMax;
  for (const SweepRow& row : sweep(4, options, "guard").rows) {
    EXPECT_EQ(row.wrong, 0) << test_op_name(row.op);
  }
}

TEST(Sweep, StepsAndFactors) {
  SweepOptions options = quick();
  options.ops = {TestOp::kBroadcast};
  options.min_bytes = 100;
  options.max_bytes = 500;
  options.step_bytes = 200;
  const SweepResult result = sweep(2, options);
  ASSERT_EQ(result.rows.size(), 3u);
  EXPECT_EQ(result.rows[2].bytes, 500);
}

TEST(Sweep, BadOptions) {
  const auto refused = [](void (*change)(SweepOptions&)) {
    SweepOptions options = quick();
    change(options);
    EXPECT_THROW(sweep(2, options), Error);
  };
  refused([](SweepOptions& o) { o.min_bytes = 0; });
  refused([](SweepOptions& o) { o.max_bytes = 4; });
  refused([](SweepOptions& o) { o.factor = 1; });
  refused([](SweepOptions& o) { o.root = 2; });
  refused([](SweepOptions& o) { o.iterations = 0; });
  EXPECT_THROW(parse_test_op("all_reduces"), Error);
}

// Blocks in the wrong place, of the wrong rank, or one element: all are seen.
TEST(Pattern, SeesSwappedBlocks) {
  constexpr int64_t kCount = 64;
  const TestPattern third(TestOp::kAllGather, DType::kF32, ReduceOp::kSum, 2, 4, 0);
  std::vector<std::byte> output;
  for (int r = 0; r < 4; ++r) {
    const auto part =
        TestPattern(TestOp::kAllGather, DType::kF32, ReduceOp::kSum, r, 4, 0).input(kCount);
    output.insert(output.end(), part.begin(), part.end());
  }
  int64_t wrong = 0;
  EXPECT_EQ(third.check(output, kCount, &wrong), -1);
  std::swap_ranges(output.begin(), output.begin() + kCount * 4, output.begin() + kCount * 4);
  EXPECT_GE(third.check(output, kCount, &wrong), 0);
  EXPECT_GT(wrong, kCount);
}

TEST(Pattern, SumsStayExact) {
  for (const DType dtype : {DType::kBF16, DType::kF16, DType::kF32, DType::kI32}) {
    EXPECT_TRUE(TestPattern(TestOp::kAllReduce, dtype, ReduceOp::kSum, 0, 64, 0).checkable());
  }
  // 256 ranks leave no two values whose sums bf16 tells apart.
  EXPECT_FALSE(
      TestPattern(TestOp::kAllReduce, DType::kBF16, ReduceOp::kSum, 0, 256, 0).checkable());
  EXPECT_TRUE(TestPattern(TestOp::kAllGather, DType::kBF16, ReduceOp::kSum, 0, 256, 0).checkable());
}

TEST(Report, HcclTestLines) {
  SweepRow row;
  row.bytes = 8192;
  row.mean_s = 764.55e-6;
  row.algbw = 8192 / row.mean_s;
  row.checked = true;
  EXPECT_EQ(hccl_test_row(row),
            "8192              | 764.55         | 0.01071              | success\n");
  row.wrong = 3;
  EXPECT_NE(hccl_test_row(row).find("| failed\n"), std::string::npos);
  row.checked = false;
  EXPECT_NE(hccl_test_row(row).find("| NULL\n"), std::string::npos);
  EXPECT_NE(hccl_test_head({}).find("data_size(Bytes): | aveg_time(us): | alg_bandwidth(GB/s): | "
                                    "check_result:\n"),
            std::string::npos);
}

TEST(Links, EveryPairOnceAndNoHostTwiceInARound) {
  std::vector<std::string> hosts;
  for (const char* host : {"a", "a", "b", "b", "c", "c", "d", "d"}) {
    hosts.emplace_back(host);
  }
  std::set<std::pair<int, int>> seen;
  for (const auto& round : link_rounds(hosts)) {
    std::set<int> ranks;
    std::set<std::string> crossing;
    for (const auto& [a, b] : round) {
      EXPECT_TRUE(seen.insert({a, b}).second);
      EXPECT_TRUE(ranks.insert(a).second && ranks.insert(b).second);
      if (hosts[static_cast<size_t>(a)] != hosts[static_cast<size_t>(b)]) {
        EXPECT_TRUE(crossing.insert(hosts[static_cast<size_t>(a)]).second);
        EXPECT_TRUE(crossing.insert(hosts[static_cast<size_t>(b)]).second);
      }
    }
  }
  EXPECT_EQ(seen.size(), 28u);
}

TEST(Links, LocalRanksAreMeasured) {
  LinkOptions options;
  options.bytes = 1 << 16;
  options.pings = 4;
  LinkResult result;
  RankRunnerOptions run;
  run.ranks = 3;
  run.threads_per_rank = 1;
  run_ranks(run, [&](World& world) {
    const auto group = create_world_group(world, "all");
    LinkResult mine = measure_links(world, *group, options, [](int, int) {});
    if (world.rank() == 0) {
      result = std::move(mine);
    }
  });
  ASSERT_EQ(result.samples.size(), 6u);
  for (const LinkSample& sample : result.samples) {
    EXPECT_GT(sample.bandwidth, 0);
    EXPECT_GT(sample.latency_s, 0);
  }
  EXPECT_EQ(host_links(result).size(), 6u);
  EXPECT_TRUE(judge_links(result).empty());
}

}  // namespace
}  // namespace plait
