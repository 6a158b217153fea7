// Reports of users as test cases: each names the report, what was launched, and what must be said.
// Beside each stand siblings of its kind that were not reported.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "plan/check.h"
#include "plan/plan_texts.h"

namespace plait {
namespace {

struct Case {
  const char* name;
  const char* flags;
  int devices;
  const char* key;   // of the error that must be found; null: no error
  const char* says;  // in its rule or suggestion
};

CheckReport check(const std::string& flags, int devices) {
  CheckOptions options;
  options.read.devices = devices;
  return check_arguments(words_of("--micro-batch-size 1 " + flags), options);
}

const CheckProblem* find(const CheckReport& report, const std::string& key,
                         const std::string& says) {
  for (const CheckProblem& problem : report.problems) {
    if (problem.key == key &&
        (problem.rule + " " + problem.suggestion).find(says) != std::string::npos) {
      return &problem;
    }
  }
  return nullptr;
}

std::string listed(const CheckReport& report) {
  std::string text;
  for (const CheckProblem& problem : report.problems) {
    text += std::string(severity_name(problem.severity)) + " " + problem.key + "=" + problem.value +
            ": " + problem.rule + "; try " + problem.suggestion + "\n";
  }
  return text;
}

class IssueCase : public ::testing::TestWithParam<Case> {};

TEST_P(IssueCase, IsAnswered) {
  const Case& test = GetParam();
  const CheckReport report = check(test.flags, test.devices);
  if (test.key == nullptr) {
    EXPECT_EQ(report.num_errors(), 0) << listed(report);
    return;
  }
  const CheckProblem* problem = find(report, test.key, test.says);
  ASSERT_NE(problem, nullptr) << listed(report);
  EXPECT_EQ(problem->severity, Severity::kError);
  EXPECT_FALSE(problem->source.empty());
  EXPECT_FALSE(report.ok());
}

// A silent wrong depth: fewer layers than asked for, or more.
INSTANTIATE_TEST_SUITE_P(
    Depth, IssueCase,
    ::testing::Values(
        Case{"Megatron_468",
             "--num-layers 80 --pipeline-model-parallel-size 16 "
             "--num-layers-per-virtual-pipeline-stage 2",
             16, "--num-layers-per-virtual-pipeline-stage", "64 layers would be trained"},
        Case{"Sibling_62LayersPp4",
             "--num-layers 62 --pipeline-model-parallel-size 4 "
             "--num-layers-per-virtual-pipeline-stage 4",
             4, "--num-layers-per-virtual-pipeline-stage", "dropped"},
        Case{"Sibling_VirtualStagesDoNotDivide",
             "--num-layers 40 --pipeline-model-parallel-size 4 "
             "--num-virtual-stages-per-pipeline-rank 4",
             4, "--pipeline-model-parallel-size", "16 must divide"},
        Case{"Sibling_80LayersFit",
             "--num-layers 80 --pipeline-model-parallel-size 16 --global-batch-size 16 "
             "--num-layers-per-virtual-pipeline-stage 1",
             16, nullptr, nullptr},
        Case{"Megatron_2718",
             "--num-layers 48 --pipeline-model-parallel-size 2 "
             "--decoder-first-pipeline-num-layers 11 --decoder-last-pipeline-num-layers 13",
             2, "--decoder-first-pipeline-num-layers", "24 layers would be ignored"},
        Case{"Sibling_FirstAndLastTooMany",
             "--num-layers 20 --pipeline-model-parallel-size 2 "
             "--decoder-first-pipeline-num-layers 11 --decoder-last-pipeline-num-layers 13",
             2, "--decoder-first-pipeline-num-layers", "4 layers would be missing"},
        Case{"Sibling_MiddleDoesNotSplit",
             "--num-layers 30 --pipeline-model-parallel-size 4 "
             "--decoder-first-pipeline-num-layers 7",
             4, "--decoder-first-pipeline-num-layers", "23 layers between"},
        Case{"Sibling_FirstAndLastFit",
             "--num-layers 48 --pipeline-model-parallel-size 2 --global-batch-size 8 "
             "--decoder-first-pipeline-num-layers 23 --decoder-last-pipeline-num-layers 25",
             2, nullptr, nullptr},
        Case{"Megatron_1304_30LayersPp4", "--num-layers 30 --pipeline-model-parallel-size 4", 4,
             "--pipeline-model-parallel-size", "must divide num_hidden_layers = 30"},
        Case{"Sibling_LayerList",
             "--num-layers 32 --pipeline-model-parallel-size 4 --num-layer-list 8,8,8,7", 4,
             "--num-layer-list", "adds up to 31"},
        Case{"Sibling_LayerListOfAnotherPp",
             "--num-layers 32 --pipeline-model-parallel-size 4 --num-layer-list 16,16", 4,
             "--num-layer-list", "needs one for each"}),
    [](const auto& param) { return std::string(param.param.name); });

INSTANTIATE_TEST_SUITE_P(
    Divisibility, IssueCase,
    ::testing::Values(
        Case{"MsSwift_8219",
             "--num-attention-heads 32 --group-query-attention --num-query-groups 2 "
             "--tensor-model-parallel-size 8",
             8, "--tensor-model-parallel-size", "tp=2"},
        Case{"Sibling_GroupsThatDoNotDivide",
             "--num-attention-heads 48 --group-query-attention --num-query-groups 6 "
             "--tensor-model-parallel-size 4",
             4, "--tensor-model-parallel-size", "neither divides num_query_groups = 6"},
        Case{"Sibling_GroupsFit",
             "--num-attention-heads 32 --group-query-attention --num-query-groups 8 "
             "--tensor-model-parallel-size 8 --global-batch-size 8",
             8, nullptr, nullptr},
        Case{"Sibling_HeadsDoNotDivide",
             "--num-layers 36 --hidden-size 3584 --num-attention-heads 28 --vocab-size 152064 "
             "--tensor-model-parallel-size 8",
             8, "--tensor-model-parallel-size", "num_attention_heads = 28"},
        Case{"MsSwift_5737_Layers",
             "--num-layers 46 --num-experts 128 --tensor-model-parallel-size 8 "
             "--pipeline-model-parallel-size 4 --expert-model-parallel-size 16 "
             "--expert-tensor-parallel-size 1 --sequence-parallel --global-batch-size 16",
             32, "--pipeline-model-parallel-size", "pp=2"},
        Case{"MsSwift_5737_ExpertGrid",
             "--num-layers 46 --num-experts 128 --tensor-model-parallel-size 8 "
             "--pipeline-model-parallel-size 4 --expert-model-parallel-size 16 "
             "--expert-tensor-parallel-size 1 --sequence-parallel --global-batch-size 16",
             32, "--expert-model-parallel-size", "1*16*4 = 64 must divide the world of 32"},
        Case{"MsSwift_5737_Pp2Works",
             "--num-layers 46 --num-experts 128 --tensor-model-parallel-size 8 "
             "--pipeline-model-parallel-size 2 --expert-model-parallel-size 16 "
             "--expert-tensor-parallel-size 1 --sequence-parallel --global-batch-size 16",
             32, nullptr, nullptr},
        Case{"NeMoRL_3563",
             "--seq-length 4096 --context-parallel-size 2 --tensor-model-parallel-size 6 "
             "--sequence-parallel",
             12, "--seq-length", "multiple of 12"},
        Case{"Sibling_CpTwoChunks", "--seq-length 4100 --context-parallel-size 8", 8,
             "--seq-length", "multiple of 16"},
        Case{"Sibling_CpAndSpFit",
             "--seq-length 4092 --context-parallel-size 2 --tensor-model-parallel-size 6 "
             "--sequence-parallel",
             12, nullptr, nullptr},
        Case{"Torchtitan_1306",
             "--seq-length 4095 --tensor-model-parallel-size 4 --sequence-parallel", 4,
             "--seq-length", "seq_len=4092"},
        Case{"Sibling_UlyssesHeads",
             "--num-layers 32 --hidden-size 4096 --num-attention-heads 32 --vocab-size 32000 "
             "--seq-length 32768 --max-position-embeddings 32768 --context-parallel-size 8 "
             "--tensor-model-parallel-size 8 --context-parallel-algo ulysses_cp_algo",
             64, "--context-parallel-size", "Ulysses splits the 4 heads"},
        Case{"Sibling_ExpertsOverEp",
             "--num-experts 60 --moe-router-topk 4 --expert-model-parallel-size 8", 8,
             "--expert-model-parallel-size", "must divide num_experts = 60"},
        Case{"Sibling_TopkAboveExperts", "--num-experts 4 --moe-router-topk 8", 8,
             "--moe-router-topk", "1 to num_experts = 4"},
        Case{"Sibling_EpWithoutExperts",
             "--num-layers 32 --hidden-size 4096 --num-attention-heads 32 --vocab-size 32000 "
             "--expert-model-parallel-size 4",
             8, "--expert-model-parallel-size", "needs a model with experts"}),
    [](const auto& param) { return std::string(param.param.name); });

INSTANTIATE_TEST_SUITE_P(
    World, IssueCase,
    ::testing::Values(Case{"NeMo_11480", "--context-parallel-size 2 --seq-length 8192", 1,
                           "--devices", "world_size=2"},
                      Case{"MegatronBridge_546",
                           "--num-experts 128 --tensor-model-parallel-size 4 --sequence-parallel "
                           "--expert-model-parallel-size 4",
                           4, "--expert-model-parallel-size",
                           "4*4*1 = 16 must divide the world of 4"},
                      Case{"MegatronBridge_546_EtpOne",
                           "--num-experts 128 --tensor-model-parallel-size 4 --sequence-parallel "
                           "--expert-model-parallel-size 4 --expert-tensor-parallel-size 1",
                           4, nullptr, nullptr},
                      Case{"Sibling_Tp8Pp2On12",
                           "--tensor-model-parallel-size 8 --pipeline-model-parallel-size 2", 12,
                           "--devices", "8*2*1 = 16"},
                      Case{"Sibling_EpIsNoFactor",
                           "--num-experts 64 --tensor-model-parallel-size 2 --sequence-parallel "
                           "--pipeline-model-parallel-size 2 --expert-model-parallel-size 8 "
                           "--expert-tensor-parallel-size 1 --global-batch-size 16",
                           16, nullptr, nullptr}),
    [](const auto& param) { return std::string(param.param.name); });

INSTANTIATE_TEST_SUITE_P(
    Batch, IssueCase,
    ::testing::Values(Case{"OpenRLHF_346", "--micro-batch-size 2 --global-batch-size 256", 7,
                           "--global-batch-size", "2*7 = 14"},
                      Case{"Sibling_Gbs100Mbs3", "--micro-batch-size 3 --global-batch-size 100", 8,
                           "--global-batch-size", "multiple of micro_batch_size*dp"},
                      Case{"Sibling_Interleaved6MicroBatches",
                           "--num-layers 32 --pipeline-model-parallel-size 4 --global-batch-size 6 "
                           "--num-layers-per-virtual-pipeline-stage 2",
                           4, "--global-batch-size", "multiple of pp = 4"},
                      Case{"Sibling_InterleavedWithoutPipeline",
                           "--num-layers 32 --num-layers-per-virtual-pipeline-stage 2", 4,
                           "--num-layers-per-virtual-pipeline-stage", "needs pp > 1"}),
    [](const auto& param) { return std::string(param.param.name); });

INSTANTIATE_TEST_SUITE_P(
    Flags, IssueCase,
    ::testing::Values(
        Case{"Megatron_1031_TpOverlap",
             "--tensor-model-parallel-size 8 --pipeline-model-parallel-size 8 --tp-comm-overlap",
             128, "--tp-comm-overlap", "--sequence-parallel"},
        Case{"Sibling_ParamGather", "--overlap-param-gather", 8, "--overlap-param-gather",
             "--use-distributed-optimizer"},
        Case{"Sibling_SelectiveMethod",
             "--recompute-granularity selective --recompute-method uniform", 8,
             "--recompute-method", "takes no"},
        Case{"Sibling_FullWithoutMethod", "--recompute-granularity full", 8,
             "--recompute-granularity", "uniform or block"},
        Case{"Sibling_Bf16AndFp16", "--bf16 --fp16", 8, "--fp16", "--bf16"},
        Case{"Sibling_FsdpAndPipeline", "--use-torch-fsdp2 --pipeline-model-parallel-size 2", 8,
             "--use-torch-fsdp2", "pp > 1"},
        Case{"Sibling_MoeTpWithoutSp",
             "--num-layers 32 --hidden-size 4096 --num-attention-heads 32 --vocab-size 32000 "
             "--num-experts 8 --tensor-model-parallel-size 4",
             8, "--sequence-parallel", "experts together with tp"},
        Case{"Sibling_SavedActivations",
             "--distribute-saved-activations --recompute-granularity full --recompute-method "
             "uniform --recompute-num-layers 5 --sequence-parallel --tensor-model-parallel-size 8",
             8, "--distribute-saved-activations", "--sequence-parallel"},
        Case{"Sibling_PaddedVocabulary", "--padded-vocab-size 50257 --tensor-model-parallel-size 2",
             2, "--padded-vocab-size", "50258"},
        Case{"Sibling_LengthBeyondPositions",
             "--num-layers 32 --hidden-size 4096 --num-attention-heads 32 --vocab-size 32000 "
             "--seq-length 8192 --max-position-embeddings 4096",
             8, "--seq-length", "max_position_embeddings = 4096"}),
    [](const auto& param) { return std::string(param.param.name); });

struct Warning {
  const char* name;
  const char* flags;
  int devices;
  const char* key;
  const char* says;
};

class IssueWarning : public ::testing::TestWithParam<Warning> {};

TEST_P(IssueWarning, IsGiven) {
  const Warning& test = GetParam();
  const CheckReport report = check(test.flags, test.devices);
  const CheckProblem* problem = find(report, test.key, test.says);
  ASSERT_NE(problem, nullptr) << listed(report);
  EXPECT_EQ(problem->severity, Severity::kWarning);
}

// These run, but not as one would think.
INSTANTIATE_TEST_SUITE_P(
    Reports, IssueWarning,
    ::testing::Values(
        Warning{"Torchtitan_775", "--pipeline-model-parallel-size 8 --global-batch-size 4", 8,
                "--global-batch-size", "4 micro-batches for pp = 8"},
        Warning{"MsSwift_10013",
                "--pipeline-model-parallel-size 2 --variable-seq-lengths --no-shared-storage "
                "--global-batch-size 8",
                2, "--variable-seq-lengths", "HcclGroupEnd"},
        Warning{"Megatron_1754",
                "--vocab-size 50257 --make-vocab-size-divisible-by 1 "
                "--tensor-model-parallel-size 2",
                2, "--vocab-size", "padded to 50258"},
        Warning{"ColossalAI_6167",
                "--vocab-size 65535 --make-vocab-size-divisible-by 1 "
                "--tensor-model-parallel-size 2",
                2, "--vocab-size", "exports must cut them off"},
        Warning{"MegatronBridge_5637", "--load ckpt --dataloader-type external", 2,
                "--dataloader-type", "same dp"},
        Warning{"Sibling_SpWithoutTp", "--sequence-parallel", 8, "--sequence-parallel",
                "no effect"},
        Warning{"Sibling_GroupsWithoutGqa", "--num-attention-heads 32 --num-query-groups 8", 8,
                "--num-query-groups", "--group-query-attention"}),
    [](const auto& param) { return std::string(param.param.name); });

}  // namespace
}  // namespace plait
