// Learning rates, and what a step and a run report.
#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "base/json_full.h"
#include "spec/model_flops.h"
#include "train/lr_schedule.h"
#include "train/step_log.h"

namespace plait {
namespace {

TEST(LrSchedule, WarmsUpLinearly) {
  for (const LrDecay decay : {LrDecay::kConstant, LrDecay::kLinear, LrDecay::kCosine}) {
    const LrSchedule schedule{
        .lr = 0.8, .lr_min = 0.1, .warmup_steps = 4, .decay_steps = 12, .decay = decay};
    EXPECT_DOUBLE_EQ(schedule.at(1), 0.2);
    EXPECT_DOUBLE_EQ(schedule.at(2), 0.4);
    EXPECT_DOUBLE_EQ(schedule.at(4), 0.8);
  }
}

TEST(LrSchedule, DecaysLinearly) {
  const LrSchedule schedule{
      .lr = 0.8, .lr_min = 0.2, .warmup_steps = 4, .decay_steps = 12, .decay = LrDecay::kLinear};
  EXPECT_DOUBLE_EQ(schedule.at(5), 0.8 - 0.6 / 8);
  EXPECT_DOUBLE_EQ(schedule.at(8), 0.5);
  EXPECT_DOUBLE_EQ(schedule.at(12), 0.2);
  EXPECT_DOUBLE_EQ(schedule.at(1000), 0.2);
}

TEST(LrSchedule, DecaysAsACosine) {
  const LrSchedule schedule{
      .lr = 1.0, .lr_min = 0.2, .warmup_steps = 4, .decay_steps = 12, .decay = LrDecay::kCosine};
  EXPECT_DOUBLE_EQ(schedule.at(6), 0.2 + 0.8 * (1 + std::sqrt(0.5)) / 2);
  EXPECT_DOUBLE_EQ(schedule.at(8), 0.6);
  EXPECT_DOUBLE_EQ(schedule.at(12), 0.2);
  EXPECT_DOUBLE_EQ(schedule.at(13), 0.2);
}

TEST(LrSchedule, ConstantAndWithoutWarmup) {
  const LrSchedule constant{.lr = 0.5, .warmup_steps = 0, .decay_steps = 10};
  EXPECT_DOUBLE_EQ(constant.at(1), 0.5);
  EXPECT_DOUBLE_EQ(constant.at(10), 0.5);
  // All of the run is warm-up.
  const LrSchedule all{.lr = 0.5, .warmup_steps = 10, .decay_steps = 10, .decay = LrDecay::kCosine};
  EXPECT_DOUBLE_EQ(all.at(10), 0.5);
  EXPECT_DOUBLE_EQ(all.at(11), 0.5);
}

TEST(LrSchedule, NamesItsDecays) {
  for (const LrDecay decay : {LrDecay::kConstant, LrDecay::kLinear, LrDecay::kCosine}) {
    EXPECT_EQ(parse_lr_decay(lr_decay_name(decay)), decay);
  }
  EXPECT_THROW(parse_lr_decay("square"), Error);
}

TEST(StepLog, AddsUpWhatTheRanksSent) {
  const RankStep fast{.total_s = 10,
                      .tensor_wait_s = 1,
                      .data_wait_s = 2,
                      .pipeline_wait_s = 1.5,
                      .control_wait_s = 0.5,
                      .optimizer_s = 1};
  RankStep slow = fast;
  slow.total_s = 12;
  const StepRecord record = summarise_step({fast, slow}, parse_layout("dp2"));
  EXPECT_DOUBLE_EQ(record.time_s, 12);
  EXPECT_DOUBLE_EQ(record.compute_s, 5);
  EXPECT_DOUBLE_EQ(record.exposed_comm_s, 3);
  EXPECT_DOUBLE_EQ(record.bubble_s, 1.5);
  EXPECT_DOUBLE_EQ(record.control_s, 0.5);
  EXPECT_DOUBLE_EQ(record.optimizer_s, 1);
  EXPECT_EQ(record.slowest_rank, -1) << "two ranks have no median to stand out from";
}

TEST(StepLog, NamesTheRankThatStandsOutOfItsStage) {
  // dp4.pp2: ranks 0-3 are stage 0, 4-7 stage 1, which has half of the work.
  std::vector<RankStep> ranks(8, RankStep{.total_s = 4});
  for (size_t rank = 4; rank < 8; ++rank) {
    ranks[rank].total_s = 2;
  }
  EXPECT_EQ(summarise_step(ranks, parse_layout("dp4.pp2")).slowest_rank, -1);
  ranks[6].total_s = 2.4;
  EXPECT_EQ(summarise_step(ranks, parse_layout("dp4.pp2")).slowest_rank, -1);
  ranks[6].total_s = 3;
  StepRecord record = summarise_step(ranks, parse_layout("dp4.pp2"));
  EXPECT_EQ(record.slowest_rank, 6);
  EXPECT_DOUBLE_EQ(record.slowest_factor, 1.5);
  // Waiting is not slowness.
  ranks[6].tensor_wait_s = 1;
  EXPECT_EQ(summarise_step(ranks, parse_layout("dp4.pp2")).slowest_rank, -1);
  ranks[1].total_s = 8;
  record = summarise_step(ranks, parse_layout("dp4.pp2"));
  EXPECT_EQ(record.slowest_rank, 1);
  EXPECT_DOUBLE_EQ(record.slowest_factor, 2);
}

// Llama of GPT-2-small's size: 12 layers of 768, ffn 2048, vocabulary of 50,304, tied.
TEST(StepLog, FlopsOfA124mModel) {
  ModelConfig config;
  config.hidden_size = 768;
  config.num_layers = 12;
  config.num_heads = 12;
  config.num_kv_heads = 12;
  config.head_dim = 64;
  config.ffn_hidden_size = 2048;
  config.vocab_size = 50304;
  config.tie_word_embeddings = true;
  // A layer: q, k, v and o are 4 x 768 x 768 = 2,359,296; gate, up and down 3 x 768 x 2048 =
  // 4,718,592. Twelve of them: 84,934,656. The head: 768 x 50,304 = 38,633,472. Together
  // 123,568,128 products a token, 6 FLOPs each (forward 2, backward 4): 741,408,768.
  // Attention: QK^T and PV are 4 x 768 FLOPs for each of the (s + 1) / 2, about s / 2, positions
  // seen; with backward three times that, in 12 layers: 6 x 12 x 768 x s = 55,296 x s.
  EXPECT_DOUBLE_EQ(model_flops_per_token(config, 64), 741408768.0 + 55296.0 * 64);
  EXPECT_DOUBLE_EQ(model_flops_per_token(config, 256), 741408768.0 + 55296.0 * 256);
  // With 4 kv heads k and v shrink to a third: 2 x 768 x 512 fewer in each layer.
  config.num_kv_heads = 4;
  EXPECT_DOUBLE_EQ(model_flops_per_token(config, 64),
                   741408768.0 - 6.0 * 12 * 2 * 768 * 512 + 55296.0 * 64);
}

TEST(StepLog, MetricsLinesParseAndAreCutAtAStep) {
  StepRecord record{.step = 7, .loss = 1.0 / 3, .grad_norm = 2, .lr = 1e-3, .tokens = 64};
  record.time_s = 0.5;
  const std::string plain = metrics_line(record);
  const Json json = parse_json(plain, "line");
  EXPECT_EQ(json["step"], 7);
  EXPECT_EQ(json["loss"], 1.0 / 3) << "every digit is kept";
  EXPECT_EQ(json["tokens_per_s"], 128);
  EXPECT_FALSE(json.contains("val_loss"));
  EXPECT_FALSE(json.contains("slowest_rank"));
  record.step = 8;
  record.val_loss = 2;
  record.slowest_rank = 3;
  record.slowest_factor = 1.5;
  const std::string full = metrics_line(record);
  EXPECT_NEAR(parse_json(full, "line")["val_perplexity"].get<double>(), std::exp(2.0), 1e-9);
  EXPECT_EQ(parse_json(full, "line")["slowest_rank"], 3);

  EXPECT_EQ(metrics_until(plain + full, 7), plain);
  EXPECT_EQ(metrics_until(plain + full, 8), plain + full);
  EXPECT_EQ(metrics_until(plain + full, 6), "");
  EXPECT_EQ(metrics_until(plain + full.substr(0, full.size() - 1), 8), plain) << "cut short";
  EXPECT_EQ(metrics_until("\n{\"step\":7\n" + plain + "other\n", 9), plain);
  EXPECT_EQ(metrics_until("", 9), "");
}

TrainSummary summary() {
  TrainSummary s;
  s.layout = "dp2.tp2";
  s.world_size = 4;
  s.last_step = 10;
  s.first_loss = 5;
  s.last_loss = 4;
  s.tokens_per_s = 1000;
  s.compute_s = 3;
  s.bubble_s = 1;
  s.memory.resize(4);
  s.memory[2].peak_bytes[0] = 2048;
  s.memory[2].total_peak_bytes = 4096;
  s.metrics = "run/metrics.jsonl";
  return s;
}

TEST(StepLog, SummaryAsTextAndJson) {
  TrainSummary s = summary();
  const Json json = parse_json(summary_json(s), "summary");
  EXPECT_EQ(json["layout"], "dp2.tp2");
  EXPECT_EQ(json["first_step"], 1);
  EXPECT_EQ(json["last_step"], 10);
  EXPECT_EQ(json["mean_step"]["bubble_s"], 1);
  EXPECT_EQ(json["memory_peak_bytes"].size(), 4U);
  EXPECT_EQ(json["memory_peak_bytes"][2]["weights"], 2048);
  EXPECT_EQ(json["memory_peak_bytes"][2]["total_peak"], 4096);
  EXPECT_FALSE(json.contains("val_loss"));
  const std::string text = format_summary(s);
  for (const char* part : {"dp2.tp2 on 4 ranks", "1 to 10", "5.0000 -> 4.0000", "compute 75.0 %",
                           "bubble 25.0 %", "4.00 KiB", "run/metrics.jsonl"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  }
  EXPECT_LE(std::count(text.begin(), text.end(), '\n'), 24) << "one screen";
  s.first_step = s.last_step;
  EXPECT_NE(format_summary(s).find("step 10 was done before"), std::string::npos);
}

}  // namespace
}  // namespace plait
