// Times of plait's own trainer: what it redoes, where the head runs, ranks that share cores.
#include "plan/plait_rules.h"

#include <gtest/gtest.h>

#include "plan/estimate.h"

namespace plait {
namespace {

TrainJob small_job(const std::string& layout, Recompute recompute = Recompute::kNone) {
  TrainJob job;
  job.model.family = ModelFamily::kQwen3;
  job.model.qk_norm = true;
  job.model.vocab_size = 1024;
  job.model.hidden_size = 256;
  job.model.ffn_hidden_size = 512;
  job.model.num_layers = 4;
  job.model.num_heads = job.model.num_kv_heads = 4;
  job.model.head_dim = 64;
  job.model.max_position_embeddings = 128;
  Layout base;
  base.recompute = recompute;
  job.layout = parse_layout(layout, base);
  job.batch = {.global_batch_size = 8, .micro_batch_size = 2, .seq_len = 128};
  job.stack = Stack::kPlait;
  job.dtype = DType::kF32;
  job.vocab_multiple = 1;
  return job;
}

Cluster host(int cores, int threads = 1) {
  Cluster cluster = load_cluster("cpu");
  cluster.cores = cores;
  cluster.threads_per_rank = threads;
  return cluster;
}

TEST(PlaitRules, SelectiveRecomputationRedoesNoProduct) {
  const TrainJob job = small_job("dp1");
  for (const Operator& op : layer_work(job, LayerType::kDense).operators) {
    if (op.kind != OpKind::kMemory) {
      EXPECT_EQ(plait_redone(job, op, Recompute::kSelective), 0) << op.name;
    }
    EXPECT_EQ(plait_redone(job, op, Recompute::kNone), 0) << op.name;
  }
}

TEST(PlaitRules, FullRecomputationStopsBeforeTheDownProjection) {
  const TrainJob job = small_job("dp1");
  double redone = 0;
  double all = 0;
  for (const Operator& op : layer_work(job, LayerType::kDense).operators) {
    redone += op.flops * plait_redone(job, op, Recompute::kFull);
    all += op.flops;
  }
  const double down = 2.0 * 256 * 256 * 512;  // 2 tokens hidden ffn
  EXPECT_DOUBLE_EQ(all - redone, down);
}

TEST(PlaitRules, FullRecomputationRepeatsOneOfTwoReductions) {
  const Collective reduce{.kind = CollectiveKind::kAllReduce, .forward = 2};
  const Collective gather{.kind = CollectiveKind::kAllGather, .forward = 2};
  EXPECT_EQ(plait_redone(reduce, Recompute::kFull), 1);
  EXPECT_EQ(plait_redone(gather, Recompute::kFull), 2);
  EXPECT_EQ(plait_redone(gather, Recompute::kSelective), 0);
}

TEST(PlaitRules, TheHeadRunsInTheForwardOfTheLastStage) {
  const TimeCosts costs = time_costs(small_job("dp1"), with_devices(host(2), 1));
  EXPECT_GT(costs.head.forward.compute, 0);
  EXPECT_EQ(costs.head.backward.total(), 0);
}

TEST(PlaitRules, RanksBeyondTheCoresTakeTurns) {
  const Cluster two = with_devices(host(2), 2);
  const Cluster four = with_devices(host(2), 4);
  EXPECT_EQ(two.core_share(), 1);
  EXPECT_EQ(four.core_share(), 0.5);
  EXPECT_EQ(with_devices(host(2, 2), 2).core_share(), 0.5);
  const StepTime own = estimate_job(small_job("dp2"), two).time;
  const StepTime turns = estimate_job(small_job("dp4"), four).time;
  EXPECT_EQ(own.turns, 0);
  // Half the work a rank at half the speed.
  EXPECT_NEAR(turns.compute, own.compute, 1e-9 * own.compute);
  EXPECT_NEAR(turns.turns, turns.compute / 2, 1e-9 * own.compute);
}

TEST(PlaitRules, ReductionsHideOnlyBehindCoresOfTheirOwn) {
  TrainJob job = small_job("dp2");
  job.overlap_grad_reduce = true;
  const double busy = estimate_job(job, with_devices(host(2), 2)).time.dp_exposed;
  const double free = estimate_job(job, with_devices(host(4), 2)).time.dp_exposed;
  EXPECT_GT(busy, 0);
  EXPECT_LT(free, busy);
}

TEST(PlaitRules, CrowdingSlowsARankByTheCoresThatOthersUse) {
  Cluster cluster = host(4);
  cluster.crowded_share.value = 0.7;
  EXPECT_DOUBLE_EQ(with_devices(cluster, 1).speed_share(), 1);
  EXPECT_DOUBLE_EQ(with_devices(cluster, 2).speed_share(), 0.9);
  EXPECT_DOUBLE_EQ(with_devices(cluster, 4).speed_share(), 0.7);
  EXPECT_DOUBLE_EQ(with_devices(cluster, 8).speed_share(), 0.7);
  EXPECT_DOUBLE_EQ(load_cluster("910b3").speed_share(), 1);
}

}  // namespace
}  // namespace plait
