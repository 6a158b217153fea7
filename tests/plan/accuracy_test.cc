// How close predictions come to published measurements: the figures of docs/planning.md.
#include <cstdlib>
#include <string>

#include <gtest/gtest.h>

#include "plan/neighbours.h"
#include "plan/plan_jobs.h"
#include "plan/score.h"
#include "plan/score_memory.h"
#include "plan/search.h"

namespace plait {
namespace {

std::string data(const std::string& name) {
  return std::string(std::getenv("PLAIT_TEST_DATA")) + "/planner/" + name;
}

TEST(Accuracy, MultiNodeA100) {
  ScoreTableOptions options;
  options.assume = {{"dtype", "fp16"}};
  ScoreTable table = read_score_table(read_csv(data("vtrain_multi.csv")), options);
  ASSERT_EQ(table.runs.size(), size_t{73});
  // They ran, and would not have fitted without it.
  assume_recompute(table, load_cluster("a100"));
  EXPECT_EQ(table.runs[0].job.layout.recompute, Recompute::kFull);
  const ScoreReport report = score_runs(table, load_cluster("a100"));
  EXPECT_LE(report.ours.mape, 0.12);
  EXPECT_LE(report.ranking.regret, 0.03);
  EXPECT_LT(report.ours.mape, report.constant.mape);
  EXPECT_LT(report.ours.mape, report.closed_form.mape);
}

TEST(Accuracy, SingleNodeA100) {
  ScoreTableOptions options;
  options.assume = {{"dtype", "fp16"}};
  ScoreTable table = read_score_table(read_csv(data("vtrain_single.csv")), options);
  ASSERT_EQ(table.runs.size(), size_t{720});
  assume_recompute(table, load_cluster("a100"));
  EXPECT_EQ(table.runs[0].job.layout.recompute, Recompute::kNone);
  const ScoreReport report = score_runs(table, load_cluster("a100"));
  EXPECT_LE(report.ours.mape, 0.2);
  EXPECT_LE(report.ranking.regret, 0.03);
  EXPECT_GE(report.ranking.tau, 0.8);
}

TEST(Accuracy, DenseRowsOf910B) {
  ScoreTableOptions options;
  options.stack = Stack::kMindSpeed;
  ScoreTable table = read_score_table(read_csv(data("mindspeed_llm_perf.csv")), options);
  std::erase_if(table.runs, [](const MeasuredRun& run) {
    return run.job.model.moe.num_experts > 0 || !run.note.empty();
  });
  ASSERT_GE(table.runs.size(), size_t{70});
  const ScoreReport report = score_runs(table, load_cluster("910b"));
  EXPECT_LE(report.ours.mape, 0.15);
}

// Huawei's CI runs of MindSpeed-LLM: memory of each rank as Megatron prints it after the first
// step.
TEST(Accuracy, MemoryOnAscend) {
  const MemoryReport report =
      score_memory(read_csv(data("ascend_ci_runs.csv")), read_csv(data("ascend_ci_memory.csv")),
                   load_cluster("910b"));
  ASSERT_GE(report.states_scored, 20);
  ASSERT_GE(report.peaks_scored, 18);
  EXPECT_GE(report.states_close, 0.75 * report.states_scored);
  EXPECT_GE(report.peaks_close, 0.70 * report.peaks_scored);
  EXPECT_EQ(report.skipped.size(), size_t{0});
}

// Korthikanti et al. 2022, table 5: seconds of a step on A100, with sequence parallelism and
// selective recomputation, and with full recomputation. Not fitted.
TEST(Accuracy, Korthikanti2022) {
  struct Row {
    int64_t layers, hidden, heads;
    int pp, vpp;
    int64_t batch, micro_batch;
    double full, selective;
  };
  for (const Row& row :
       {Row{48, 6144, 64, 1, 1, 4, 4, 1.42, 1.10}, Row{96, 12288, 96, 8, 3, 64, 1, 18.13, 13.75},
        Row{105, 20480, 128, 35, 3, 280, 1, 49.05, 37.83},
        Row{128, 25600, 160, 64, 1, 512, 1, 94.42, 71.49}}) {
    TrainJob job = gpt_job(row.layers, row.hidden, row.heads);
    job.dtype = DType::kF16;
    job.layout.tp = 8;
    job.layout.pp = row.pp;
    job.layout.vpp = row.vpp;
    job.layout.schedule = row.vpp > 1 ? ScheduleKind::kInterleaved : ScheduleKind::kOneFOneB;
    job.batch.global_batch_size = row.batch;
    job.batch.micro_batch_size = row.micro_batch;
    const Cluster cluster = with_devices(load_cluster("a100"), 8 * row.pp);
    job.layout.recompute = Recompute::kFull;
    // One micro-batch of 22B on one server, the shortest step, is the least certain.
    const double limit = row.pp == 1 ? 0.12 : 0.05;
    EXPECT_NEAR(estimate_job(job, cluster).time.step.best / row.full, 1, limit) << row.layers;
    job.layout.sp = true;
    job.layout.recompute = Recompute::kSelective;
    EXPECT_NEAR(estimate_job(job, cluster).time.step.best / row.selective, 1, limit) << row.layers;
  }
}

TrainJob llama_13b() {
  TrainJob job = small_job();
  ModelConfig& m = job.model;
  m.num_layers = 40;
  m.hidden_size = 5120;
  m.num_heads = m.num_kv_heads = 40;
  m.head_dim = 128;
  m.ffn_hidden_size = 13824;
  job.stack = Stack::kMindSpeed;
  job.batch = {.global_batch_size = 512, .micro_batch_size = 1, .seq_len = 4096};
  return job;
}

// MindSpeed-LLM: 13B went from tp 8 to tp 1, pp 4 with one block recomputed, and gained 7 points.
TEST(Accuracy, LadderOf13B) {
  const Cluster cluster = with_devices(load_cluster("910b"), 8);
  TrainJob tp8 = llama_13b();
  tp8.layout.tp = 8;
  tp8.layout.sp = true;
  tp8.batch.micro_batch_size = 4;
  TrainJob pp4 = llama_13b();
  pp4.layout.pp = 4;
  pp4.layout.dp = 2;
  pp4.layout.zero = 1;
  pp4.layout.recompute = Recompute::kFull;
  pp4.recompute_layers = 1;
  EXPECT_LT(estimate_job(pp4, cluster).time.step.best, estimate_job(tp8, cluster).time.step.best);
}

TEST(Accuracy, InterleavingAndRecomputation) {
  const Cluster cluster = with_devices(load_cluster("910b"), 32);
  TrainJob plain = llama_13b();
  plain.batch.global_batch_size = 32;
  plain.layout.tp = 4;
  plain.layout.pp = 8;
  plain.layout.sp = true;
  TrainJob interleaved = plain;
  interleaved.layout.vpp = 5;
  interleaved.layout.schedule = ScheduleKind::kInterleaved;
  EXPECT_LT(estimate_job(interleaved, cluster).time.step.best,
            estimate_job(plain, cluster).time.step.best);
  TrainJob full = plain;
  full.layout.recompute = Recompute::kFull;
  const Estimate kept = estimate_job(plain, cluster);
  const Estimate redone = estimate_job(full, cluster);
  EXPECT_GT(redone.time.step.best, 1.15 * kept.time.step.best);
  EXPECT_LT(redone.worst_stage().peak.best, kept.worst_stage().peak.best);
}

// Llama2-7B, 32K tokens, cp 4: Ulysses 192.3 against ring 102.7 TFLOP/s (planner.md section 5).
TEST(Accuracy, UlyssesBeatsRingAt32K) {
  TrainJob job = llama_13b();
  job.model.num_layers = 32;
  job.model.hidden_size = 4096;
  job.model.num_heads = job.model.num_kv_heads = 32;
  job.model.ffn_hidden_size = 11008;
  job.batch = {.global_batch_size = 16, .micro_batch_size = 1, .seq_len = 32768};
  job.layout.tp = 2;
  job.layout.sp = true;
  job.layout.cp = 4;
  const Cluster cluster = with_devices(load_cluster("910b"), 8);
  TrainJob ulysses = job;
  ulysses.cp_algorithm = CpAlgorithm::kUlysses;
  EXPECT_LT(estimate_job(ulysses, cluster).time.step.best,
            estimate_job(job, cluster).time.step.best);
}

TEST(Score, ImpossibleRowsAreFlagged) {
  const std::string header =
      "devices,global_batch,micro_batch,layers,hidden,heads,seq,tp,pp,step_s\n";
  const std::string text = "\xef\xbb\xbf" + header +
                           "8,64,1,32,4096,32,4096,8,1,0.1\r\n"  // above the peak
                           "8,64,1,32,4096,32,4096,3,1,20\r\n"   // 8 % 3
                           "8,64,1,32,4096,32,4096,8,1,20\r\n"   // fine
                           "8,64,1,32,4096,32,,8,1,20\r\n"       // a hole
                           "8,64,1,32,4096,32,4096,8,1,\r\n";    // not measured
  const ScoreTable table = read_score_table(parse_csv(text, "t.csv"), {});
  EXPECT_EQ(table.runs.size(), size_t{2});
  ASSERT_EQ(table.impossible.size(), size_t{1});
  EXPECT_NE(table.impossible[0].find("line 3"), std::string::npos);
  EXPECT_EQ(table.skipped.size(), size_t{2});
  const ScoreReport report = score_runs(table, load_cluster("a100"));
  ASSERT_EQ(report.impossible.size(), size_t{1});
  EXPECT_NE(report.impossible[0].find("line 2"), std::string::npos);
  EXPECT_EQ(report.runs.size(), size_t{1});
}

TEST(Score, RankingsByHand) {
  std::vector<MeasuredRun> runs(3);
  for (MeasuredRun& run : runs) {
    run.question = "q";
  }
  runs[0].step_s = 1;
  runs[1].step_s = 2;
  runs[2].step_s = 4;
  const Ranking good = ranking_of({{&runs[0], 1}, {&runs[1], 2}, {&runs[2], 3}});
  EXPECT_DOUBLE_EQ(good.tau, 1);
  EXPECT_DOUBLE_EQ(good.regret, 0);
  const Ranking bad = ranking_of({{&runs[0], 3}, {&runs[1], 1}, {&runs[2], 2}});
  EXPECT_NEAR(bad.tau, -1.0 / 3, 1e-12);
  EXPECT_DOUBLE_EQ(bad.regret, 1);
  const Metrics metrics = metrics_of({{&runs[0], 1.1}, {&runs[1], 1.8}});
  EXPECT_NEAR(metrics.mape, 0.1, 1e-12);
}

}  // namespace
}  // namespace plait
