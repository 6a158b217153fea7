// Which program a script starts, on how many devices; launches of HF Trainer programs.
#include "plan/readers/launch.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "base/error.h"
#include "plan/check.h"
#include "plan/plan_texts.h"

namespace plait {
namespace {

Launch launch_of(const std::string& text) {
  return find_launch(read_shell(text, "run.sh")).value();
}

std::string launch_refusal(const std::string& text) {
  return refusal_of([&] { find_launch(read_shell(text, "run.sh")); });
}

bool has_note(const CheckReport& report, const std::string& part) {
  for (const Note& note : report.assumptions) {
    if (note.text.find(part) != std::string::npos) {
      return true;
    }
  }
  return false;
}

// A folder with files that a script names.
class LaunchFiles : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = testing::TempDir() + "plait_launch_test";
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  void write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ + "/" + name) << text;
  }
  CheckReport check(const std::string& script, int devices = 0) const {
    CheckOptions options;
    options.read.devices = devices;
    return check_text(script, folder_ + "/run.sh", options);
  }
  std::string folder_;
};

TEST(Launch, ACommandThatIsNoneIsPassedOver) {
  EXPECT_FALSE(find_launch(
      read_shell("timeout 10 $D/python a torchrun --nproc_per_node 2 train.py", "run.sh")));
  EXPECT_FALSE(find_launch(
      read_shell("USAGE=\"torchrun --nproc_per_node N train.py SIZE\"\necho $USAGE\n", "run.sh")));
  EXPECT_NE(launch_refusal("torchrun --nproc_per_node N train.py\n").find("--nproc_per_node is N"),
            std::string::npos);
}

TEST(Launch, ALauncherBehindAnUnknownFolder) {
  const Launch launch = launch_of("$VENV/bin/torchrun --nproc_per_node 4 train.py --a 1\n");
  EXPECT_EQ(launch.program, "train.py");
  EXPECT_EQ(launch.world_size(), 4);
  EXPECT_EQ(launch_of("$BIND $RANK python3 train.py --a 1\n").program, "train.py");
}

TEST(Launch, TheInnerLauncherCounts) {
  EXPECT_EQ(launch_of("srun --ntasks=4 --ntasks-per-node=1 torchrun --nnodes 4 --nproc_per_node 8 "
                      "train.py\n")
                .world_size(),
            32);
  EXPECT_EQ(launch_of("srun --ntasks=4 python train.py\n").world_size(), 4);
  EXPECT_EQ(
      launch_of("srun -n 2 bash -c 'accelerate launch --num_processes 16 train.py'\n").world_size(),
      16);
}

TEST(Launch, ProgramsInContainersAndBehindWrapperScripts) {
  EXPECT_EQ(launch_of("docker run --gpus all -v /data/vllm:/data img:1 torchrun --nproc_per_node 4 "
                      "train.py\n")
                .world_size(),
            4);
  EXPECT_EQ(
      launch_of("srun -n 16 singularity exec -B /x img.sif ./launch.sh pretrain_gpt.py --a 1\n")
          .program,
      "pretrain_gpt.py");
  EXPECT_EQ(launch_of("srun -n 16 ./wrapper.sh python -u train.py\n").world_size(), 16);
  const Launch image = launch_of(
      "sudo docker run -d --name vllm-x --gpus all vllm/vllm-openai:v0.9 --model /m "
      "--tensor-parallel-size 4\n");
  EXPECT_EQ(image.kind, ProgramKind::kVllm);
  ASSERT_EQ(image.arguments.size(), 4U);
  EXPECT_EQ(image.arguments[0].text, "--model");
}

TEST(Launch, OptionsOfLaunchers) {
  EXPECT_EQ(launch_of("deepspeed --bind_cores_to_rank --num_gpus 4 train.py\n").world_size(), 4);
  EXPECT_EQ(launch_of("accelerate launch --same-network --num_processes 4 train.py\n").world_size(),
            4);
  EXPECT_EQ(launch_of("srun -n8 --pty python train.py\n").world_size(), 8);
  EXPECT_EQ(launch_of("mpirun --tag-output -np 4 python train.py\n").world_size(), 4);
  EXPECT_EQ(launch_of("srun -n 2 llamafactory-cli train a.yaml\n").world_size(), 8);
  EXPECT_EQ(
      launch_of("torchrun --nproc_per_node 4 train.py\naccelerate merge-weights a b\n").program,
      "train.py");
}

TEST(Launch, CountsThatAskTheMachine) {
  EXPECT_EQ(launch_of("torchrun --nproc_per_node=gpu train.py\n").world_size(), 8);
  const std::string shown = "export CUDA_VISIBLE_DEVICES=0,1,2,3\n";
  const Launch launch = launch_of(shown + "torchrun --nproc_per_node gpu train.py\n");
  EXPECT_EQ(launch.world_size(), 4);
  EXPECT_TRUE(launch.notes.empty());
  EXPECT_EQ(launch_of(shown + "accelerate launch --num_processes $(nvidia-smi -L | wc -l) a.py\n")
                .world_size(),
            4);
}

TEST(Launch, WithoutCountsDeepSpeedTakesTheDevicesThatAreShown) {
  EXPECT_EQ(launch_of("deepspeed train.py --deepspeed ds.json\n").world_size(), 8);
  EXPECT_EQ(launch_of("export CUDA_VISIBLE_DEVICES=0,1\ndeepspeed train.py\n").world_size(), 2);
}

TEST(Launch, WrappersEndAtTheLauncher) {
  EXPECT_EQ(launch_of("conda run -n ft llamafactory-cli train a.yaml\n").launcher,
            "llamafactory-cli");
  EXPECT_EQ(launch_of("uv run swift sft --model Qwen/Qwen3-8B\n").launcher, "swift");
  EXPECT_EQ(launch_of("uv run accelerate launch --num_processes 8 train.py\n").world_size(), 8);
  EXPECT_EQ(launch_of("poetry run deepspeed --num_gpus 4 train.py\n").world_size(), 4);
}

TEST_F(LaunchFiles, LlamaFactoryTakesAllDevices) {
  write("sft.yaml",
        "model_name_or_path: Qwen/Qwen3-8B\nstage: sft\nper_device_train_batch_size: 2\n"
        "gradient_accumulation_steps: 2\ncutoff_len: 1024\nfp16: true\n");
  const CheckReport all = check("llamafactory-cli train sft.yaml\n");
  EXPECT_EQ(all.world_size, 8);
  EXPECT_TRUE(has_note(all, "8 are assumed"));
  EXPECT_EQ(all.job.dtype, DType::kF16);
  EXPECT_GT(all.job.lora.rank, 0);  // its default
  EXPECT_EQ(
      check("export ASCEND_RT_VISIBLE_DEVICES=0,1\nllamafactory-cli train sft.yaml\n").world_size,
      2);
  EXPECT_EQ(check("NPROC_PER_NODE=4 NNODES=2 llamafactory-cli train sft.yaml\n").world_size, 8);
  const CheckReport typed = check("llamafactory-cli train sft.yaml cutoff_len=512 fp16=false\n");
  EXPECT_EQ(typed.job.batch.seq_len, 512);
  EXPECT_EQ(typed.job.dtype, DType::kF32);
}

TEST_F(LaunchFiles, LlamaFactoryByItsProgram) {
  const CheckReport report = check(
      "torchrun --nproc_per_node 4 src/train.py --stage sft --template qwen --cutoff_len 512 "
      "--model_name_or_path Qwen/Qwen3-8B --per_device_train_batch_size 1\n");
  EXPECT_EQ(report.job.lora.rank, 8);
  EXPECT_EQ(report.job.layout.recompute, Recompute::kFull);
}

TEST_F(LaunchFiles, AnErrorInAYamlNamesTheYaml) {
  write("sft.yaml", "model_name_or_path: Qwen/Qwen3-8B\nstage: sft\ncutoff_len: many\n");
  EXPECT_NE(refusal_of([&] {
              check("llamafactory-cli train sft.yaml\n");
            }).find("sft.yaml:3: --cutoff_len is many"),
            std::string::npos);
}

TEST_F(LaunchFiles, WhatSavesMemoryMakesTheEstimateAnUpperBound) {
  const std::string full =
      "CUDA_VISIBLE_DEVICES=0 llamafactory-cli train --stage sft --finetuning_type full "
      "--model_name_or_path Qwen/Qwen3-8B --template qwen --cutoff_len 2048 ";
  EXPECT_EQ(check(full + "\n").memory->fit, Fit::kDoesNotFit);
  for (const char* saves : {"--pure_bf16", "--optim adamw_8bit", "--quantization_bit 4"}) {
    const CheckReport report = check(full + saves + "\n");
    EXPECT_EQ(report.memory->fit, Fit::kTight) << saves;
    EXPECT_TRUE(has_note(report, "saves memory that is counted here")) << saves;
  }
  EXPECT_EQ(check(full + "--optim adamw_torch --pure_bf16 false\n").memory->fit, Fit::kDoesNotFit);
}

TEST_F(LaunchFiles, AYamlThatRepeatsATextIsBounded) {
  std::string yaml = "model_name_or_path: &x " + std::string(100000, 'm') + "\nstage: sft\n";
  for (int i = 0; i < 1000; ++i) {
    yaml += "k" + std::to_string(i) + ": *x\n";
  }
  write("sft.yaml", yaml);
  EXPECT_NE(refusal_of([&] { check("llamafactory-cli train sft.yaml\n"); }).find("4 MiB"),
            std::string::npos);
}

TEST_F(LaunchFiles, BareSwitches) {
  write("ds.json", "{\"zero_optimization\": {\"stage\": 2}}");
  const CheckReport report = check(
      "torchrun --nproc_per_node 8 train.py --deepspeed ds.json --model_name_or_path Qwen/Qwen3-8B "
      "--bf16 --gradient_checkpointing --use_lora --per_device_train_batch_size 1 "
      "--model_max_length 1024\n");
  EXPECT_EQ(report.job.dtype, DType::kBF16);
  EXPECT_EQ(report.job.layout.recompute, Recompute::kFull);
  EXPECT_EQ(report.job.lora.rank, 8);
  EXPECT_EQ(to_string(report.job.layout), "dp8.zero2");
  const CheckReport off = check(
      "torchrun --nproc_per_node 8 train.py --deepspeed ds.json --bf16 False --fp16 True "
      "--per_device_train_batch_size 1 --gradient_checkpointing False\n");
  EXPECT_EQ(off.job.dtype, DType::kF16);
  EXPECT_EQ(off.job.layout.recompute, Recompute::kNone);
}

TEST_F(LaunchFiles, AccelerateWithFsdp) {
  write("fsdp.yaml",
        "distributed_type: FSDP\nnum_machines: 2\nnum_processes: 16\nmixed_precision: bf16\n"
        "fsdp_config:\n  fsdp_sharding_strategy: FULL_SHARD\n  fsdp_offload_params: false\n"
        "  fsdp_activation_checkpointing: true\n");
  const std::string program =
      "train.py --model_name_or_path Qwen/Qwen3-8B --per_device_train_batch_size 1 "
      "--max_seq_length 4096\n";
  const CheckReport report = check("accelerate launch --config_file fsdp.yaml " + program);
  EXPECT_EQ(report.world_size, 16);
  EXPECT_EQ(to_string(report.job.layout), "dp16.zero3");
  EXPECT_EQ(report.job.layout.recompute, Recompute::kFull);
  EXPECT_EQ(report.job.dtype, DType::kBF16);
  EXPECT_NE(report.kind.find("FSDP full_shard"), std::string::npos) << report.kind;
  // The launcher's options beat its file.
  EXPECT_EQ(check("accelerate launch --config_file fsdp.yaml --num_processes 8 "
                  "--fsdp_sharding_strategy SHARD_GRAD_OP " +
                  program)
                .job.layout.zero,
            2);
  write("fsdp2.yaml",
        "distributed_type: FSDP\nnum_processes: 8\nfsdp_config:\n  fsdp_version: 2\n"
        "  fsdp_reshard_after_forward: false\n  fsdp_offload_params: true\n");
  const CheckReport second = check("accelerate launch --config_file fsdp2.yaml " + program);
  EXPECT_EQ(second.job.layout.zero, 2);
  EXPECT_TRUE(second.job.offload_optimizer);
  write("bad.yaml", "distributed_type: FSDP\nfsdp_config:\n  fsdp_sharding_strategy: HALF\n");
  EXPECT_NE(refusal_of([&] {
              check("accelerate launch --config_file bad.yaml " + program);
            }).find("FSDP's strategy is 'HALF'"),
            std::string::npos);
}

TEST_F(LaunchFiles, AConfigurationOfAccelerateAlone) {
  CheckOptions options;
  const std::string yaml =
      "compute_environment: LOCAL_MACHINE\ndistributed_type: DEEPSPEED\nnum_processes: 8\n"
      "deepspeed_config:\n  zero_stage: 3\n  ds.json: null\n";
  write("zero3.yaml", yaml);
  const CheckReport report = check_text(yaml, folder_ + "/zero3.yaml", options);
  EXPECT_EQ(to_string(report.job.layout), "dp8.zero3");
  ASSERT_EQ(report.unknown_flags.size(), 1U);
  EXPECT_EQ(report.unknown_flags[0].text, "deepspeed_config.ds.json");
  EXPECT_EQ(report.unknown_flags[0].where.line, 6);
}

TEST_F(LaunchFiles, ConfigurationsOfAnotherKind) {
  write("ds.json", "{\"zero_optimization\": {\"stage\": 3}}");
  EXPECT_NE(refusal_of([&] {
              check("accelerate launch --config_file ds.json train.py\n");
            }).find("--deepspeed_config_file"),
            std::string::npos);
  EXPECT_NE(refusal_of([&] {
              check_text("{\"architectures\": [\"A\"], \"model_type\": \"b\"}", "config.json", {});
            }).find("configuration of a model"),
            std::string::npos);
  EXPECT_NE(refusal_of([&] {
              check("x=1\naccelerate launch --config_file no.yaml train.py\n");
            }).find("run.sh:2: accelerate's --config_file 'no.yaml' is not here"),
            std::string::npos);
}

const CheckProblem* find_problem(const CheckReport& report, const std::string& key) {
  for (const CheckProblem& problem : report.problems) {
    if (problem.key == key) {
      return &problem;
    }
  }
  return nullptr;
}

TEST_F(LaunchFiles, EveryProcessNeedsADevice) {
  write("fsdp.yaml", "distributed_type: FSDP\nnum_machines: 2\nnum_processes: 8\n");
  const std::string launch =
      "\naccelerate launch --config_file fsdp.yaml train.py --max_length 64\n";
  const CheckReport report = check("export CUDA_VISIBLE_DEVICES=5,7" + launch);
  const CheckProblem* problem = find_problem(report, "CUDA_VISIBLE_DEVICES");
  ASSERT_NE(problem, nullptr);
  EXPECT_NE(problem->rule.find("4 processes"), std::string::npos);
  EXPECT_EQ(problem->where.line, 1);
  EXPECT_EQ(
      find_problem(check("export CUDA_VISIBLE_DEVICES=4,5,6,7" + launch), "CUDA_VISIBLE_DEVICES"),
      nullptr);
}

TEST_F(LaunchFiles, SeveralServersNeedAnAddressToMeetAt) {
  const std::string program =
      " --nproc_per_node 8 train.py --per_device_train_batch_size 1 --max_length 64\n";
  const CheckReport report =
      check("ADDR=localhost\ntorchrun --nnodes 2 --master_addr $ADDR" + program);
  const CheckProblem* problem = find_problem(report, "--master_addr");
  ASSERT_NE(problem, nullptr);
  EXPECT_EQ(problem->where.line, 1);
  EXPECT_EQ(
      find_problem(check("torchrun --nnodes 1 --master-addr=localhost" + program), "--master_addr"),
      nullptr);
  // The first server may call itself so.
  EXPECT_EQ(
      find_problem(check("torchrun --nnodes 2 --node_rank 0 --master-addr=localhost" + program),
                   "--master_addr"),
      nullptr);
  EXPECT_NE(find_problem(check("torchrun --nnodes 2 --rdzv-endpoint=127.0.0.1:29500" + program),
                         "--rdzv_endpoint"),
            nullptr);
  EXPECT_EQ(
      find_problem(check("torchrun --nnodes 2 --master_addr 10.0.0.1" + program), "--master_addr"),
      nullptr);
}

TEST_F(LaunchFiles, ServersOfFsdpAreThoseOfTheLauncher) {
  const CheckReport report = check(
      "export CUDA_VISIBLE_DEVICES=0,1,2,3,4,5,6,7\ntorchrun --nnodes 2 --nproc_per_node 8 "
      "train.py "
      "--per_device_train_batch_size 1 --max_length 64 --fsdp full_shard\n");
  EXPECT_EQ(report.num_errors(), 0) << problems_of(report);
  EXPECT_EQ(report.job.layout.dp, 16);
}

TEST_F(LaunchFiles, VariablesThatTheLauncherDoesNotRead) {
  const std::string program = " train.py --per_device_train_batch_size 1 --max_length 64\n";
  EXPECT_TRUE(check("export CUDA_VISIBLE_DEVICES=0\ndeepspeed --num_gpus 4" + program).ok());
  EXPECT_TRUE(
      check("export CUDA_VISIBLE_DEVICES=0\ndocker run img torchrun --nproc_per_node 4" + program)
          .ok());
  EXPECT_TRUE(
      check("export CUDA_VISIBLE_DEVICES=0,1,\ntorchrun --nproc_per_node gpu" + program).ok());
}

TEST_F(LaunchFiles, HostsOfDeepSpeed) {
  write("hosts", "# all\nworker-0 slots=8\nworker-1 slots=8 # new\nworker-2 slots=4\n\n");
  const std::string program = " --hostfile hosts train.py --per_device_train_batch_size 1\n";
  EXPECT_EQ(check("deepspeed" + program).world_size, 12);
  EXPECT_EQ(check("deepspeed --num_nodes 2" + program).world_size, 8);
  EXPECT_EQ(check("deepspeed --num_nodes 2 --num_gpus 8" + program).world_size, 16);
}

TEST_F(LaunchFiles, AnOptionThatIsCutOff) {
  const CheckReport report = check(
      "torchrun --nproc_per_node 8 train.py --per_device_train_batch_size 1\n--max_length 64 \\\n"
      "--bf16\n");
  const CheckProblem* problem = find_problem(report, "--max_length");
  ASSERT_NE(problem, nullptr);
  EXPECT_EQ(problem->where.line, 2);
}

TEST_F(LaunchFiles, AccelerateWithDeepSpeed) {
  write("zero3.yaml",
        "distributed_type: DEEPSPEED\nnum_processes: 8\nmixed_precision: bf16\n"
        "deepspeed_config:\n  zero_stage: 3\n  offload_optimizer_device: cpu\n"
        "  gradient_accumulation_steps: 4\n");
  const std::string program = "train.py --per_device_train_batch_size 2 --max_length 1024\n";
  const CheckReport report = check("accelerate launch --config_file zero3.yaml " + program);
  EXPECT_EQ(to_string(report.job.layout), "dp8.zero3");
  EXPECT_EQ(report.job.batch.global_batch_size, 64);
  EXPECT_TRUE(report.job.offload_optimizer);
  write("ds.json", "{\"zero_optimization\": {\"stage\": 1}, \"bf16\": {\"enabled\": true}}");
  write("file.yaml",
        "distributed_type: DEEPSPEED\nnum_processes: 8\ndeepspeed_config:\n"
        "  deepspeed_config_file: ds.json\n");
  EXPECT_EQ(to_string(check("accelerate launch --config_file file.yaml " + program).job.layout),
            "dp8.zero1");
  EXPECT_EQ(to_string(check("accelerate launch --use_deepspeed --zero_stage 2 --num_processes 4 " +
                            program)
                          .job.layout),
            "dp4.zero2");
}

TEST_F(LaunchFiles, AProgramWithAYamlOfItsOwn) {
  write("recipe.yaml",
        "model_name_or_path: Qwen/Qwen3-8B\nper_device_train_batch_size: 4\nbf16: true\n"
        "max_seq_length: 2048\nuse_peft: true\nlora_r: 16\ngradient_checkpointing: true\n");
  const CheckReport report =
      check("torchrun --nproc_per_node 8 sft.py --config recipe.yaml --max_seq_length 1024\n");
  EXPECT_EQ(to_string(report.job.layout), "dp8");
  EXPECT_EQ(report.job.batch.micro_batch_size, 4);
  EXPECT_EQ(report.job.batch.seq_len, 1024);
  EXPECT_EQ(report.job.lora.rank, 16);
  EXPECT_EQ(report.job.layout.recompute, Recompute::kFull);
  EXPECT_TRUE(report.has_model);
}

TEST_F(LaunchFiles, AStrategyThatIsNotKnownIsAskedFor) {
  const std::string program = " train.py --per_device_train_batch_size 1 --max_length 64 ";
  const auto asks = [&](const std::string& script, const std::string& name) {
    const std::string message = refusal_of([&] { check(script); });
    EXPECT_NE(message.find("--set " + name + "=VALUE"), std::string::npos) << message;
  };
  asks("torchrun --nproc_per_node 8" + program + "--deepspeed $DS\n", "DS");
  asks("torchrun --nproc_per_node 8" + program + "--fsdp $F\n", "F");
  asks("accelerate launch --config_file $C" + program + "\n", "C");
  asks("accelerate launch --use_deepspeed --zero_stage $Z" + program + "\n", "Z");
  const std::string eight = "torchrun --nproc_per_node 8" + program;
  EXPECT_EQ(check(eight + "--deepspeed zero3\n").job.layout.zero, 3);
  EXPECT_EQ(
      check(eight + "--deepspeed '{\"zero_optimization\": {\"stage\": 2}}'\n").job.layout.zero, 2);
  write("r.yaml", "per_device_train_batch_size: 1\nfsdp: [full_shard, auto_wrap]\n");
  EXPECT_EQ(check("torchrun --nproc_per_node 8 sft.py --config r.yaml\n").job.layout.zero, 3);
  EXPECT_EQ(check(eight + "--fsdp False\n").job.layout.zero, 0);
}

TEST_F(LaunchFiles, AGuessedLengthSettlesNothing) {
  const std::string program =
      "torchrun --nproc_per_node 4 train.py --model_name_or_path meta-llama/Llama-2-7b-hf --bf16 "
      "True "
      "--per_device_train_batch_size 8 --fsdp \"full_shard auto_wrap\"";
  EXPECT_EQ(check(program + "\n").memory->fit, Fit::kTight);
  EXPECT_EQ(check(program + " --model_max_length 4096\n").memory->fit, Fit::kDoesNotFit);
}

TEST_F(LaunchFiles, AYamlThatIsNotHereIsTold) {
  const CheckReport report = check("accelerate launch --num_processes 4 sft.py gone.yaml\n");
  EXPECT_EQ(report.origin, folder_ + "/run.sh");
  EXPECT_EQ(report.job.layout.dp, 4);
  ASSERT_EQ(report.not_evaluated.size(), 1U);
  EXPECT_NE(report.not_evaluated[0].text.find("gone.yaml is not here"), std::string::npos);
}

TEST_F(LaunchFiles, VariablesOfAscendTellTheChip) {
  const std::string launch =
      "torchrun --nproc_per_node 8 sft.py --model_name_or_path Qwen/Qwen3-0.6B --max_length 64 "
      "--per_device_train_batch_size 1\n";
  EXPECT_TRUE(has_note(check("export HCCL_CONNECT_TIMEOUT=600\n" + launch), "910b3 is assumed"));
  EXPECT_TRUE(has_note(check(launch), "a100 is assumed"));
}

TEST_F(LaunchFiles, ModelsAreKnownByTheirShape) {
  const auto model_of = [&](const std::string& name) {
    return check(
        "accelerate launch --num_processes 8 sft.py --max_length 64 --model_name_or_path " + name +
        "\n");
  };
  EXPECT_EQ(model_of("Qwen/Qwen2.5-14B-Instruct").job.model.hidden_size, 5120);
  EXPECT_EQ(model_of("meta-llama/Meta-Llama-3-8B-Instruct").job.model.vocab_size, 128256);
  EXPECT_EQ(model_of("meta-llama/Llama-2-7b-hf").job.model.ffn_hidden_size, 11008);
  EXPECT_EQ(model_of("/data/models/Qwen3-8B/").job.model.num_layers, 36);
  for (const char* other : {"gpt2-medium", "Qwen2.5-VL-7B-Instruct", "my-model"}) {
    const CheckReport report = model_of(other);
    EXPECT_FALSE(report.has_model) << other;
    EXPECT_TRUE(has_note(report, std::string("the shape of '") + other + "' is not known"));
  }
}

TEST_F(LaunchFiles, FsdpOfTheTrainer) {
  const CheckReport report = check(
      "torchrun --nproc_per_node 8 train.py --model_name_or_path Qwen/Qwen3-8B --bf16 True "
      "--per_device_train_batch_size 1 --model_max_length 2048 --fsdp \"full_shard auto_wrap\"\n");
  EXPECT_EQ(to_string(report.job.layout), "dp8.zero3");
  EXPECT_EQ(report.world_size, 8);
}

TEST_F(LaunchFiles, ANameThatIsTooLongIsNoFile) {
  const std::string name(5000, 'x');
  const CheckReport report = check("torchrun --nproc_per_node 2 train.py --deepspeed " + name +
                                   "/zero2.json --per_device_train_batch_size 1\n");
  EXPECT_EQ(report.job.layout.zero, 2);
}

}  // namespace
}  // namespace plait
