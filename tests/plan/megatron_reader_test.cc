#include "plan/readers/megatron.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "plan/check.h"
#include "plan/plan_texts.h"
#include "plan/readers/megatron_flags.h"

namespace plait {
namespace {

ReadJob read(const std::string& flags, const ReadOptions& options = {}) {
  return read_megatron(plain_launch(words_of(flags)), "arguments", options);
}

std::string refused_flags(const std::string& flags) {
  return refusal_of([&] { read(flags); });
}

const char* const kLlama =
    "--num-layers 32 --hidden-size 4096 --ffn-hidden-size 11008 --num-attention-heads 32 "
    "--seq-length 4096 --max-position-embeddings 4096 --micro-batch-size 1 "
    "--global-batch-size 256 --position-embedding-type rope --normalization RMSNorm --swiglu "
    "--disable-bias-linear --untie-embeddings-and-output-weights --bf16 --vocab-size 32000 ";

TEST(MegatronReader, ALaunchScript) {
  const char* script = R"(#!/bin/bash
export CUDA_DEVICE_MAX_CONNECTIONS=1
GPUS_PER_NODE=8
NNODES=${NNODES:-4}
TP=4
PP=2
GPT_ARGS="
    --tensor-model-parallel-size ${TP} \
    --pipeline-model-parallel-size ${PP} \
    --sequence-parallel --use-distributed-optimizer \
    --num-layers 32 --hidden-size 4096 --ffn-hidden-size 14336 \
    --num-attention-heads 32 --group-query-attention --num-query-groups 8 \
    --seq-length 8192 --max-position-embeddings 8192 \
    --micro-batch-size 1 --global-batch-size 128 \
    --position-embedding-type rope --normalization RMSNorm --swiglu --disable-bias-linear \
    --untie-embeddings-and-output-weights --bf16 --vocab-size 128256 \
    --recompute-granularity full --recompute-method uniform --recompute-num-layers 1
"
torchrun --nproc_per_node $GPUS_PER_NODE --nnodes $NNODES --node_rank $RANK pretrain_gpt.py \
    $GPT_ARGS --data-path $DATA --save $1 | tee log
)";
  const CheckReport report = check_text(script, "train.sh", {});
  EXPECT_EQ(report.num_errors(), 0);
  EXPECT_EQ(report.world_size, 32);
  EXPECT_EQ(to_string(report.job.layout), "dp4.tp4.pp2.sp.zero1");
  EXPECT_EQ(report.job.layout.recompute, Recompute::kFull);
  EXPECT_EQ(report.job.recompute_layers, -1);
  EXPECT_EQ(report.job.model.num_kv_heads, 8);
  EXPECT_EQ(report.job.model.head_dim, 128);
  EXPECT_EQ(report.job.model.vocab_size, 128256);
  EXPECT_EQ(report.job.stack, Stack::kMegatron);
  EXPECT_TRUE(report.unknown_flags.empty());
}

TEST(MegatronReader, ProblemsNameTheLineOfTheValue) {
  const CheckReport report = check_text(
      "TP=3\ntorchrun --nproc_per_node 6 pretrain_gpt.py --tensor-model-parallel-size $TP " +
          std::string(kLlama) + "\n",
      "train.sh", {});
  ASSERT_GE(report.num_errors(), 1);
  EXPECT_EQ(report.problems[0].key, "--tensor-model-parallel-size");
  EXPECT_EQ(report.problems[0].where.text(), "train.sh:1");
}

// Every flag of launches that ran is known, and none of them breaks a rule.
TEST(MegatronReader, LaunchesThatRanHaveNoErrors) {
  const std::string text =
      read_file(std::string(std::getenv("PLAIT_TEST_DATA")) + "/planner/launch_flags.txt");
  std::istringstream stream(text);
  int rows = 0;
  for (std::string line; std::getline(stream, line);) {
    if (line.starts_with('#')) {
      continue;
    }
    const size_t blank = line.find(' ');
    std::vector<std::string> words = words_of(line.substr(blank));
    ASSERT_GE(words.size(), 4U);
    words.insert(words.begin() + 4, "pretrain_gpt.py");
    words.insert(words.begin(), "torchrun");
    const CheckReport report = check_arguments(words, {});
    EXPECT_EQ(report.num_errors(), 0) << line.substr(0, blank) << ": " << report.problems[0].key
                                      << " " << report.problems[0].rule;
    EXPECT_TRUE(report.unknown_flags.empty())
        << line.substr(0, blank) << ": " << report.unknown_flags[0].text;
    ++rows;
  }
  EXPECT_GE(rows, 40);
}

TEST(MegatronReader, MindSpeedIsRecognised) {
  EXPECT_EQ(read(std::string(kLlama) + "--reuse-fp32-param").job.stack, Stack::kMindSpeed);
  EXPECT_EQ(read(kLlama).job.stack, Stack::kMegatron);
}

TEST(MegatronReader, UnknownFlagsAreListedWithTheNearest) {
  const ReadJob job = read(std::string(kLlama) + "--tensor-model-paralel-size 8 --my-own-flag 3 4");
  ASSERT_EQ(job.unknown_flags.size(), 2U);
  EXPECT_EQ(job.unknown_flags[0].text, "--tensor-model-paralel-size");
  EXPECT_EQ(job.unknown_flags[0].nearest, "--tensor-model-parallel-size");
  EXPECT_EQ(job.unknown_flags[1].text, "--my-own-flag");
}

TEST(MegatronReader, DefaultsAreMegatrons) {
  const ReadJob job = read(
      "--num-layers 4 --hidden-size 1024 --num-attention-heads 16 --seq-length 512 "
      "--max-position-embeddings 512 --micro-batch-size 2 --vocab-size 50257");
  EXPECT_EQ(job.job.model.ffn_hidden_size, 4096);
  EXPECT_EQ(job.job.model.norm, NormType::kLayer);
  EXPECT_EQ(job.job.model.position, PositionType::kLearned);
  EXPECT_FALSE(job.job.model.gated_mlp);
  EXPECT_TRUE(job.job.model.tie_word_embeddings);
  EXPECT_TRUE(job.job.model.mlp_bias && job.job.model.qkv_bias && job.job.model.o_bias);
  EXPECT_EQ(job.job.vocab_multiple, 128);
  EXPECT_EQ(job.job.dtype, DType::kF32);
  EXPECT_DOUBLE_EQ(job.job.dropout, 0.1);
  // Two thirds of 4h, in multiples of 64, with a gate.
  EXPECT_EQ(read("--num-layers 4 --hidden-size 1024 --num-attention-heads 16 --swiglu")
                .job.model.ffn_hidden_size,
            2688);
}

TEST(MegatronReader, ExpertsAndLatentAttention) {
  const ReadJob job = read(
      "--num-layers 64 --hidden-size 7168 --ffn-hidden-size 18432 --num-attention-heads 128 "
      "--multi-latent-attention --q-lora-rank 1536 --kv-lora-rank 512 --qk-head-dim 128 "
      "--qk-pos-emb-head-dim 64 --v-head-dim 128 --num-experts 256 --moe-router-topk 8 "
      "--moe-ffn-hidden-size 2048 --n-shared-experts 1 --first-k-dense-replace 3 "
      "--moe-layer-freq 1 --noop-layers 61,62,63 --vocab-size 129280 --sequence-parallel "
      "--tensor-model-parallel-size 2 --pipeline-model-parallel-size 8 "
      "--expert-model-parallel-size 32 --expert-tensor-parallel-size 1 --micro-batch-size 1 "
      "--global-batch-size 3840 --seq-length 4096 --max-position-embeddings 163840 --bf16 "
      "--use-distributed-optimizer",
      {.shell = {}, .model = "", .devices = 512});
  EXPECT_EQ(job.job.model.num_layers, 61);
  EXPECT_EQ(job.job.layout.stage_layers, (std::vector<int64_t>{8, 8, 8, 8, 8, 8, 8, 5}));
  EXPECT_EQ(job.job.model.mla.kv_lora_rank, 512);
  EXPECT_EQ(job.job.model.head_dim, 192);
  EXPECT_EQ(job.job.model.moe.num_experts, 256);
  EXPECT_EQ(job.job.model.moe.shared_ffn_hidden_size, 2048);
  EXPECT_EQ(job.job.model.moe.first_dense_layers, 3);
  EXPECT_TRUE(job.problems.empty());
  EXPECT_TRUE(find_job_problems(job.job, job.world_size).empty());
}

TEST(MegatronReader, VirtualStages) {
  const std::string pipeline = std::string(kLlama) + "--pipeline-model-parallel-size 4 ";
  EXPECT_EQ(read(pipeline + "--num-layers-per-virtual-pipeline-stage 2").job.layout.vpp, 4);
  EXPECT_EQ(read(pipeline + "--num-virtual-stages-per-pipeline-rank 2").job.layout.vpp, 2);
  const ReadJob layout = read(pipeline + "--pipeline-model-parallel-layout E(tttt|)*7ttttL");
  EXPECT_EQ(layout.job.layout.vpp, 2);
  EXPECT_EQ(layout.job.layout.stage_layers, std::vector<int64_t>(8, 4));
  EXPECT_EQ(read(pipeline + "--num-layer-list 7,9,9,7").job.layout.stage_layers,
            (std::vector<int64_t>{7, 9, 9, 7}));
  EXPECT_EQ(read(pipeline + "--decoder-first-pipeline-num-layers 7 "
                            "--decoder-last-pipeline-num-layers 5")
                .job.layout.stage_layers,
            (std::vector<int64_t>{7, 10, 10, 5}));
}

TEST(MegatronReader, AbsurdValuesAreRefusedWithTheirPlace) {
  for (const char* value : {"0", "-4", "1000000000000000000000000000000", "eight", "4.5", ""}) {
    const std::string message =
        refused_flags(std::string("--tensor-model-parallel-size=") + value + " " + kLlama);
    EXPECT_NE(message.find("arguments"), std::string::npos) << value;
    EXPECT_NE(message.find("tensor-model-parallel-size"), std::string::npos) << message;
  }
  EXPECT_NE(refused_flags("--num-layers 99999999 --hidden-size 64 --num-attention-heads 4"),
            "accepted");
  EXPECT_NE(refused_flags("--num-layers"), "accepted");
  EXPECT_NE(refused_flags(std::string(kLlama) + "--tensor-model-parallel-size 1000000 "
                                                "--pipeline-model-parallel-size 1000000"),
            "");  // any answer but a crash
}

TEST(MegatronReader, ANeededValueThatIsNotKnown) {
  const std::string script = "torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers $LAYERS " +
                             std::string(kLlama).substr(16) + "\n";
  try {
    check_text(script, "train.sh", {});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(exit_code(error.code()), 2);
    EXPECT_NE(error.message().find("train.sh:1"), std::string::npos) << error.message();
    EXPECT_NE(error.message().find("--set LAYERS=VALUE"), std::string::npos);
  }
  CheckOptions options;
  options.read.shell.settings = {{"LAYERS", "32"}};
  EXPECT_EQ(check_text(script, "train.sh", options).job.model.num_layers, 32);
}

TEST(MegatronReader, OtherProgramsAreRefused) {
  for (const char* command :
       {"torchrun --nproc_per_node 8 train_fsdp2.py tune.yaml",
        "python3 -m verl.trainer.main_ppo data.train_batch_size=1024",
        "deepspeed --module openrlhf.cli.train_sft --max_len 2048 --micro_train_batch_size 2"}) {
    EXPECT_NE(refusal_of([&] { check_text(command, "run.sh", {}); }), "accepted") << command;
  }
}

TEST(MegatronReader, WhatTakesAnUnknownAmountLessIsNeverTooMuch) {
  const std::string job = "torchrun --nproc_per_node 8 posttrain_gpt.py --use-flash-attn " +
                          std::string(kLlama) + "--micro-batch-size 16 ";
  const CheckReport padded = check_text(job, "run.sh", {});
  ASSERT_TRUE(padded.memory);
  EXPECT_EQ(padded.memory->fit, Fit::kDoesNotFit);
  for (const char* flag : {"--is-instruction-dataset --no-pad-to-seq-lengths",
                           "--variable-seq-lengths", "--o2-optimizer", "--smart-swap"}) {
    const CheckReport report = check_text(job + flag, "run.sh", {});
    ASSERT_TRUE(report.memory) << flag;
    EXPECT_EQ(report.memory->fit, Fit::kTight) << flag;
    EXPECT_TRUE(report.ok()) << flag;
  }
}

TEST(MegatronReader, Launchers) {
  const auto world = [](const std::string& line) {
    return check_text(line + " pretrain_gpt.py " + kLlama + "\n", "x.sh", {}).world_size;
  };
  EXPECT_EQ(world("torchrun --nproc-per-node=8 --nnodes 2"), 16);
  EXPECT_EQ(world("python3 -m torch.distributed.launch --nproc_per_node 4"), 4);
  EXPECT_EQ(world("python -u -X dev -m torch.distributed.run --nproc_per_node 4"), 4);
  EXPECT_EQ(world("uv run python -m torch.distributed.run --nproc_per_node 8"), 8);
  EXPECT_EQ(world("nohup numactl -N 0 torchrun --nproc_per_node 8"), 8);
  EXPECT_EQ(world("deepspeed --num_gpus 8 --num_nodes 2"), 16);
  EXPECT_EQ(world("msrun --worker_num 16 --local_worker_num 8 --join True"), 16);
  EXPECT_EQ(world("srun -N 2 --ntasks-per-node=8 python -u"), 16);
  EXPECT_EQ(world("mpirun --allow-run-as-root -np 8 -x A python"), 8);
  EXPECT_EQ(world("A=1 env B=2 torchrun --nproc_per_node 8"), 8);
}

TEST(MegatronReader, CommandsThatAreHardToFind) {
  const std::string flags = std::string(kLlama) + "--tensor-model-parallel-size 4\n";
  const auto world = [&](const std::string& script) {
    const CheckReport report = check_text(script, "train.sh", {});
    EXPECT_EQ(report.job.layout.tp, 4) << script;
    return report.world_size;
  };
  // Behind words that are not known, in a variable that nothing readable runs, behind ray and srun.
  EXPECT_EQ(world("APP=\"torchrun --nproc_per_node 8 $DIR/pretrain_gpt.py " + flags +
                  "\"\n$BINDING $LOCAL_RANK $APP\n"),
            8);
  EXPECT_EQ(world("CMD=(torchrun --nproc_per_node 8 pretrain_gpt.py " +
                  flags.substr(0, flags.size() - 1) + ")\npython - \"${CMD[@]}\" <<'PY'\nPY\n"),
            8);
  EXPECT_EQ(world("ray job submit --address=x -- python3 train_async.py --actor-num-nodes 2 "
                  "--actor-num-gpus-per-node 8 " +
                  flags),
            16);
  EXPECT_EQ(world("#SBATCH --nodes=2\n#SBATCH --ntasks-per-node=8\n"
                  "srun -lu bash -c \"RANK=\\$SLURM_PROCID python3 pretrain_gpt.py " +
                  flags.substr(0, flags.size() - 1) + "\"\n"),
            16);
  EXPECT_EQ(world("torchrun --nproc_per_node=$(nvidia-smi -L | wc -l) pretrain_gpt.py " + flags),
            8);
}

TEST(MegatronReader, EmbeddingsAsLayersOfThePartition) {
  const ReadJob bloom = read(
      "--num-layers 70 --hidden-size 14336 --num-attention-heads 112 --seq-length 2048 "
      "--micro-batch-size 2 --pipeline-model-parallel-size 12 --pad-vocab-size-to 250880 "
      "--pp-partition-method type:transformer|embedding --deepspeed --zero-stage 0");
  EXPECT_EQ(bloom.job.layout.stage_layers,
            (std::vector<int64_t>{5, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 5}));
  EXPECT_EQ(bloom.job.model.vocab_size, 250880);
  EXPECT_TRUE(bloom.unknown_flags.empty());
}

TEST(MegatronReader, RulesOfFlagsThatAreAbsent) {
  const std::string job = "deepspeed --num_gpus 8 pretrain_gpt.py " + std::string(kLlama) +
                          "--deepspeed --zero-stage 3 ";
  EXPECT_EQ(check_text(job, "x.sh", {}).num_errors(), 1);
  EXPECT_EQ(check_text(job + "--no-pipeline-parallel", "x.sh", {}).num_errors(), 0);
  const auto warned = [](const std::string& flags) {
    const ReadJob found = read(std::string(kLlama) + flags);
    return std::ranges::any_of(found.problems, [](const CheckProblem& problem) {
      return problem.key == "--moe-ffn-hidden-size";
    });
  };
  EXPECT_TRUE(warned("--num-experts 64 --moe-router-topk 6"));
  EXPECT_FALSE(warned("--num-experts 64 --moe-router-topk 6 --moe-ffn-hidden-size 1408"));
  EXPECT_FALSE(warned("--num-experts 8 --moe-router-topk 2"));
}

TEST(MegatronReader, SwiftsDefaults) {
  const auto job = [](const std::string& flags) {
    return check_text(
        "NPROC_PER_NODE=8 megatron sft --model Qwen3-8B --max_length 2048 "
        "--micro_batch_size 1 --global_batch_size 16 " +
            flags,
        "x.sh", {});
  };
  EXPECT_EQ(job("").job.layout.zero, 1);
  EXPECT_EQ(job("").job.lora.rank, 0);
  EXPECT_EQ(job("--use_distributed_optimizer false").job.layout.zero, 0);
  EXPECT_EQ(job("--overlap_param_gather true --overlap_grad_reduce true").num_errors(), 0);
  EXPECT_EQ(job("--train_type lora").job.lora.rank, 8);
  EXPECT_EQ(job("--tuner_type lora --lora_rank 16 --target_modules all-linear").job.lora.rank, 16);
  // Without a shape no rule about layers holds.
  EXPECT_EQ(check_text("NPROC_PER_NODE=8 megatron sft --load x-mcore --max_length 2048 "
                       "--pipeline_model_parallel_size 2 --decoder_last_pipeline_num_layers 11 "
                       "--micro_batch_size 1 --global_batch_size 16",
                       "x.sh", {})
                .num_errors(),
            0);
}

TEST(MegatronReader, VocabularyOfATokenizerIsAssumedAndSaid) {
  const ReadJob job = read(
      "--num-layers 80 --hidden-size 8192 --ffn-hidden-size 28672 --num-attention-heads 64 "
      "--tokenizer-type Llama2Tokenizer --micro-batch-size 1 --seq-length 4096");
  EXPECT_EQ(job.job.model.vocab_size, 32000);
  bool said = false;
  for (const Note& note : job.assumptions) {
    said = said || note.text.find("32000") != std::string::npos;
  }
  EXPECT_TRUE(said);
}

}  // namespace
}  // namespace plait
