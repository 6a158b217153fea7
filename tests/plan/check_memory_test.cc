// Reports about memory, and proposals: what is proposed passes the check.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "plan/check.h"
#include "plan/check_report.h"
#include "plan/plan_texts.h"

namespace plait {
namespace {

const char* const kLlama7b =
    "--num-layers 32 --hidden-size 4096 --ffn-hidden-size 11008 --num-attention-heads 32 "
    "--max-position-embeddings 4096 --position-embedding-type rope --normalization RMSNorm "
    "--swiglu --disable-bias-linear --untie-embeddings-and-output-weights --bf16 "
    "--vocab-size 32000 --attention-dropout 0 --hidden-dropout 0 ";
const char* const kLlama70b =
    "--num-layers 80 --hidden-size 8192 --ffn-hidden-size 28672 --num-attention-heads 64 "
    "--group-query-attention --num-query-groups 8 --max-position-embeddings 8192 "
    "--position-embedding-type rope --normalization RMSNorm --swiglu --disable-bias-linear "
    "--untie-embeddings-and-output-weights --bf16 --vocab-size 128256 --attention-dropout 0 "
    "--hidden-dropout 0 ";

CheckReport check(const std::string& flags, int devices, const char* cluster) {
  CheckOptions options;
  options.read.devices = devices;
  options.cluster = load_cluster(cluster);
  return check_arguments(words_of(flags), options);
}

// GiB at the peak of the fullest stage.
double worst(const CheckReport& report) {
  EXPECT_TRUE(report.memory.has_value()) << check_report_text(report);
  double most = 0;
  if (report.memory) {
    for (const StageMemoryPlan& stage : report.memory->stages) {
      most = std::max(most, stage.peak.best);
    }
  }
  return most / (1024.0 * 1024 * 1024);
}

// Applies the changes of a proposal to plain flags.
std::string applied(const std::string& flags, const Proposal& proposal, int& devices) {
  std::vector<std::string> words = words_of(flags);
  for (const ProposedChange& change : proposal.changes) {
    if (change.key == "world_size") {
      devices = std::stoi(change.after);
      continue;
    }
    const auto found = std::find(words.begin(), words.end(), change.name);
    const bool is_switch = change.after == "on" || change.after == "off";
    if (found != words.end()) {
      const bool has_value = found + 1 != words.end() && !(found + 1)->starts_with("--");
      words.erase(found, found + (has_value ? 2 : 1));
    }
    if (change.after != "off" && change.after != "absent") {
      words.push_back(change.name);
      if (!is_switch) {
        const std::vector<std::string> values = words_of(change.after);
        words.insert(words.end(), values.begin(), values.end());
      }
    }
  }
  std::string joined;
  for (const std::string& word : words) {
    joined += (joined.empty() ? "" : " ") + word;
  }
  return joined;
}

TEST(CheckMemory, Megatron606_StatesAloneExceedA40GbCard) {
  const std::string flags =
      std::string(kLlama7b) + "--seq-length 64 --micro-batch-size 1 --global-batch-size 8 ";
  const CheckReport report = check(flags, 8, "a100-40g");
  EXPECT_FALSE(report.ok());
  ASSERT_TRUE(report.memory);
  // 6.74e9 parameters of 18 bytes.
  EXPECT_NEAR(report.memory->stages[0].bytes.states(), 6.738e9 * 18, 1e9);
  EXPECT_EQ(report.memory->fit, Fit::kDoesNotFit);
  // 6 + 12/8 bytes still exceed it; TP2 with a distributed optimizer fits, and so does TP8.
  EXPECT_FALSE(check(flags + "--use-distributed-optimizer", 8, "a100-40g").ok());
  EXPECT_TRUE(
      check(flags + "--use-distributed-optimizer --tensor-model-parallel-size 2", 8, "a100-40g")
          .ok());
  EXPECT_TRUE(check(flags + "--tensor-model-parallel-size 8", 8, "a100-40g").ok());
  ASSERT_TRUE(report.proposal);
  EXPECT_EQ(report.proposal->changes.size(), 1U);
}

TEST(CheckMemory, MegatronLlama11_TwoCardsFailFourRun) {
  const std::string flags = std::string(kLlama7b) +
                            "--seq-length 4096 --micro-batch-size 4 --sequence-parallel "
                            "--tensor-model-parallel-size 2 --use-distributed-optimizer "
                            "--overlap-grad-reduce --overlap-param-gather --use-flash-attn ";
  EXPECT_FALSE(check(flags + "--global-batch-size 8", 2, "a800").ok());
  const CheckReport four = check(flags + "--global-batch-size 16", 4, "a800");
  EXPECT_EQ(four.num_errors(), 0);
  ASSERT_TRUE(four.memory);
  EXPECT_NE(four.memory->fit, Fit::kDoesNotFit) << check_report_text(four);
  // dp 2 halves the optimizer shard: 3.37e9 * (18 - 12).
  const CheckReport two = check(flags + "--global-batch-size 8", 2, "a800");
  EXPECT_NEAR(two.memory->stages[0].bytes.states() - four.memory->stages[0].bytes.states(),
              3.37e9 * 6, 2e8);
}

TEST(CheckMemory, Megatron1031_70bAtTp8Pp2NeedsManyReplicas) {
  const std::string flags = std::string(kLlama70b) +
                            "--seq-length 4096 --micro-batch-size 1 --sequence-parallel "
                            "--tensor-model-parallel-size 8 --pipeline-model-parallel-size 2 ";
  // Without a distributed optimizer 70.6e9 / 16 * 18 bytes are 79 GB.
  EXPECT_FALSE(check(flags + "--global-batch-size 128", 128, "h100").ok());
  const CheckReport eight =
      check(flags + "--global-batch-size 128 --use-distributed-optimizer", 128, "h100");
  ASSERT_TRUE(eight.memory);
  EXPECT_NEAR(eight.memory->stages[0].bytes.states(), 70.55e9 / 16 * 7.5, 1.5e9);
  const CheckReport more =
      check(flags + "--global-batch-size 768 --use-distributed-optimizer", 768, "h100");
  EXPECT_LT(more.memory->stages[0].bytes.states(), eight.memory->stages[0].bytes.states() - 4e9);
}

TEST(CheckMemory, MegatronBridge3107_MoreVirtualStagesHoldLess) {
  const std::string flags = std::string(kLlama70b) +
                            "--seq-length 4096 --micro-batch-size 1 --global-batch-size 32 "
                            "--tensor-model-parallel-size 4 --pipeline-model-parallel-size 4 "
                            "--sequence-parallel --use-distributed-optimizer ";
  const double five = worst(check(flags + "--num-layers-per-virtual-pipeline-stage 4", 32, "h100"));
  const double ten = worst(check(flags + "--num-layers-per-virtual-pipeline-stage 2", 32, "h100"));
  EXPECT_LT(ten, five);
}

TEST(CheckMemory, LlamaFactory6999_32bOnSevenCards) {
  const std::string text =
      "{\"train_micro_batch_size_per_gpu\": 1, \"gradient_accumulation_steps\": 1,\n"
      "\"bf16\": {\"enabled\": true}, \"activation_checkpointing\": {},\n"
      "\"zero_optimization\": {\"stage\": 3, \"overlap_comm\": true}}";
  CheckOptions options;
  options.read.model = "Qwen2.5-32B";
  options.read.devices = 7;
  options.read.seq_len = 1024;
  options.cluster = load_cluster("a800");
  const CheckReport report = check_text(text, "ds_z3.json", options);
  ASSERT_TRUE(report.memory);
  EXPECT_NE(report.memory->fit, Fit::kFits) << check_report_text(report);
  // 16 bytes a parameter over 7 cards.
  EXPECT_NEAR(report.memory->stages[0].bytes.states(), 32.76e9 * 16 / 7, 2e9);
  options.read.devices = 16;
  EXPECT_TRUE(check_text(text, "ds_z3.json", options).ok());
}

TEST(CheckMemory, LlamaFactory4572_MoreDevicesDoNotHelpActivations) {
  const std::string text =
      "{\"train_micro_batch_size_per_gpu\": 1, \"gradient_accumulation_steps\": 1,\n"
      "\"bf16\": {\"enabled\": true}, \"activation_checkpointing\": {},\n"
      "\"zero_optimization\": {\"stage\": 3, \"offload_optimizer\": {\"device\": \"cpu\"}}}";
  const auto report = [&](int devices) {
    CheckOptions options;
    options.read.model = "Qwen2.5-7B";  // the shape of Qwen2-7B
    options.read.devices = devices;
    options.read.seq_len = 8192;
    options.cluster = load_cluster("910b");
    return check_text(text, "ds_z3_offload.json", options);
  };
  const CheckReport few = report(16), many = report(64);
  ASSERT_TRUE(few.memory && many.memory);
  const StageBytes &a = few.memory->stages[0].bytes, &b = many.memory->stages[0].bytes;
  EXPECT_LT(b.states(), a.states());
  EXPECT_DOUBLE_EQ(a.activations, b.activations);
  EXPECT_DOUBLE_EQ(a.logits, b.logits);
  // f32 logits of 8192 * 152064, at least twice.
  EXPECT_GT(b.logits, 2 * 8192.0 * 152064 * 4);
}

TEST(CheckProposal, PassesTheCheck) {
  const std::string batch = "--seq-length 4096 --micro-batch-size 1 --global-batch-size 64 ";
  const std::string moe =
      "--num-layers 46 --hidden-size 4096 --ffn-hidden-size 11008 --num-attention-heads 32 "
      "--num-experts 128 --moe-ffn-hidden-size 1408 --moe-router-topk 8 --swiglu --bf16 "
      "--vocab-size 151552 --max-position-embeddings 4096 --sequence-parallel "
      "--use-distributed-optimizer ";
  struct Broken {
    std::string flags;
    int devices;
    size_t most;  // changes
  };
  const Broken cases[] = {
      {kLlama7b + batch, 8, 1},
      {kLlama70b + batch, 64, 3},
      {kLlama7b + batch + "--pipeline-model-parallel-size 5", 40, 2},
      {kLlama7b + batch + "--tensor-model-parallel-size 3", 12, 2},
      {kLlama7b + batch + "--tensor-model-parallel-size 8 --pipeline-model-parallel-size 2", 12, 2},
      {kLlama7b + batch +
           "--pipeline-model-parallel-size 4 --num-layers-per-virtual-pipeline-stage 3",
       16, 2},
      {moe + batch +
           "--tensor-model-parallel-size 8 --pipeline-model-parallel-size 4 "
           "--expert-model-parallel-size 16 --expert-tensor-parallel-size 1",
       32, 3},
      {std::string(kLlama7b) + "--seq-length 4094 --micro-batch-size 1 --global-batch-size 64 " +
           "--context-parallel-size 2 --tensor-model-parallel-size 4 --sequence-parallel",
       16, 1},
      {std::string(kLlama7b) + "--seq-length 4096 --micro-batch-size 3 --global-batch-size 64 " +
           "--tensor-model-parallel-size 4",
       8, 1},
      {kLlama7b + batch + "--tensor-model-parallel-size 2 --fp16", 8, 3},
  };
  for (const Broken& broken : cases) {
    const CheckReport report = check(broken.flags, broken.devices, "a100");
    EXPECT_FALSE(report.ok()) << broken.flags;
    ASSERT_TRUE(report.proposal) << check_report_text(report);
    EXPECT_LE(report.proposal->changes.size(), broken.most) << check_report_text(report);
    if (broken.flags.find("--fp16") != std::string::npos ||
        broken.flags.find("per-virtual") != std::string::npos) {
      continue;  // said in words
    }
    int devices = broken.devices;
    const std::string fixed = applied(broken.flags, *report.proposal, devices);
    const CheckReport again = check(fixed, devices, "a100");
    EXPECT_TRUE(again.ok()) << broken.flags << "\n" << fixed << "\n" << check_report_text(again);
  }
}

TEST(CheckProposal, NoneIsMadeForWhatWorks) {
  const CheckReport report = check(std::string(kLlama7b) +
                                       "--seq-length 4096 --micro-batch-size 1 "
                                       "--global-batch-size 64 --tensor-model-parallel-size 8 "
                                       "--sequence-parallel",
                                   8, "a100");
  EXPECT_TRUE(report.ok()) << check_report_text(report);
  EXPECT_FALSE(report.proposal);
}

}  // namespace
}  // namespace plait
