// DeepSpeed, MindFormers and vLLM.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/error.h"
#include "plan/check.h"
#include "plan/check_report.h"
#include "plan/check_serving.h"
#include "plan/plan_texts.h"
#include "plan/readers/deepspeed.h"
#include "spec/model_catalog.h"

namespace plait {
namespace {

CheckReport check(const std::string& text, const std::string& origin, int devices = 0) {
  CheckOptions options;
  options.read.devices = devices;
  return check_text(text, origin, options);
}

const CheckProblem* find(const CheckReport& report, const std::string& key) {
  for (const CheckProblem& problem : report.problems) {
    if (problem.key == key) {
      return &problem;
    }
  }
  return nullptr;
}

std::string refusal(const std::string& text, const std::string& origin) {
  return refusal_of([&] { check(text, origin); });
}

CheckReport serve(const std::string& line, const char* cluster = "h100") {
  CheckOptions options;
  options.cluster = load_cluster(cluster);
  return check_arguments(words_of(line), options);
}

TEST(DeepSpeed, OpenRlhf346_BatchArithmetic) {
  const CheckReport report =
      check("{\n\"train_batch_size\": 256,\n\"train_micro_batch_size_per_gpu\": 2}", "ds.json", 7);
  const CheckProblem* problem = find(report, "train_batch_size");
  ASSERT_NE(problem, nullptr);
  EXPECT_EQ(problem->where.text(), "ds.json:2");
  EXPECT_NE(problem->suggestion.find("252 or 266, or 8 ranks"), std::string::npos);
  EXPECT_TRUE(
      check("{\"train_batch_size\": 256, \"train_micro_batch_size_per_gpu\": 2}", "ds.json", 8)
          .ok());
}

TEST(DeepSpeed, TwoOfThreeSizesGiveTheThird) {
  const CheckReport report = check(
      "{\"train_batch_size\": 64, \"train_micro_batch_size_per_gpu\": 2, "
      "\"gradient_accumulation_steps\": 4}",
      "ds.json");
  EXPECT_EQ(report.world_size, 8);
  EXPECT_TRUE(report.ok());
  EXPECT_EQ(check("{\"train_batch_size\": 64, \"gradient_accumulation_steps\": 4}", "ds.json", 8)
                .job.batch.micro_batch_size,
            2);
}

TEST(DeepSpeed, Contradictions) {
  const CheckReport report = check(
      "{\"fp16\": {\"enabled\": true}, \"bf16\": {\"enabled\": true},\n"
      "\"zero_optimization\": {\"stage\": 2,\n\"offload_param\": {\"device\": \"cpu\"}}}",
      "ds.json", 8);
  EXPECT_NE(find(report, "bf16.enabled"), nullptr);
  const CheckProblem* offload = find(report, "zero_optimization.offload_param");
  ASSERT_NE(offload, nullptr);
  EXPECT_EQ(offload->where.line, 3);
  EXPECT_NE(find(check("{\"zero_optimization\": {\"stage\": 4}}", "ds.json", 8),
                 "zero_optimization.stage"),
            nullptr);
}

TEST(DeepSpeed, UnknownKeysAreListed) {
  const CheckReport report =
      check("{\"zero_optimisation\": {}, \"zero_optimization\": {\"stage\": 1, \"stgae3\": 1}}",
            "ds.json", 8);
  ASSERT_EQ(report.unknown_flags.size(), 2U);
  EXPECT_EQ(report.unknown_flags[0].nearest, "zero_optimization");
}

TEST(DeepSpeed, BadInput) {
  EXPECT_NE(refusal("{\"train_batch_size\": ", "ds.json").find("ds.json"), std::string::npos);
  EXPECT_NE(refusal("{\n\"train_batch_size\": -4}", "ds.json").find("ds.json:2"),
            std::string::npos);
  EXPECT_NE(refusal("{\"train_batch_size\": 1e30}", "ds.json"), "accepted");
  EXPECT_NE(refusal("{\"train_batch_size\": 18446744073709551615}", "ds.json"), "accepted");
  EXPECT_NE(refusal("[1]", "ds.json"), "accepted");
}

TEST(DeepSpeed, ALaunchWithAHereDocument) {
  const CheckReport report = check(
      "cat <<EOF > ds.json\n{\n\"zero_optimization\": {\"stage\": 3},\n"
      "\"bf16\": {\"enabled\": true}, \"train_micro_batch_size_per_gpu\": \"auto\"\n}\nEOF\n"
      "deepspeed --num_gpus 8 finetune.py --deepspeed ds.json --model_name_or_path "
      "Qwen/Qwen2.5-7B --per_device_train_batch_size 2 --model_max_length 2048 "
      "--gradient_checkpointing True\n",
      "run.sh");
  EXPECT_EQ(report.world_size, 8);
  EXPECT_EQ(report.job.layout.zero, 3);
  EXPECT_EQ(report.job.batch.micro_batch_size, 2);
  EXPECT_EQ(report.job.batch.seq_len, 2048);
  EXPECT_EQ(report.job.model.num_heads, 28);
  EXPECT_EQ(report.job.layout.recompute, Recompute::kFull);
}

// A number in the file that differs from the program's flag: HF's Trainer refuses to start.
TEST(DeepSpeed, ALaunchThatContradictsItsConfiguration) {
  const auto launch = [](const std::string& steps, const std::string& flags) {
    return check(
        "cat <<EOF > ds.json\n{\n\"zero_optimization\": {\"stage\": 2},\n"
        "\"gradient_accumulation_steps\": " +
            steps +
            ",\n\"train_micro_batch_size_per_gpu\": 2\n}\nEOF\n"
            "deepspeed --num_gpus 8 finetune.py --deepspeed ds.json "
            "--per_device_train_batch_size 2" +
            flags + "\n",
        "run.sh");
  };
  const CheckReport right = launch("4", " --gradient_accumulation_steps 4");
  EXPECT_TRUE(right.problems.empty());
  EXPECT_EQ(right.job.batch.global_batch_size, 64);
  const CheckReport filled = launch("\"auto\"", " --gradient_accumulation_steps 8");
  EXPECT_TRUE(filled.problems.empty());
  EXPECT_EQ(filled.job.batch.global_batch_size, 128);
  const CheckReport wrong = launch("4", " --gradient_accumulation_steps 8");
  const CheckProblem* problem = find(wrong, "gradient_accumulation_steps");
  ASSERT_NE(problem, nullptr);
  EXPECT_EQ(problem->where.text(), "run.sh:4");
  EXPECT_NE(problem->rule.find("--gradient_accumulation_steps 8"), std::string::npos);
}

TEST(DeepSpeed, LinesOfKeys) {
  const std::string text = "{\n \"a\": \"stage\",\n \"z\": {\n  \"stage\": 3\n }\n}";
  EXPECT_EQ(json_key_line(text, "z.stage"), 4);
  EXPECT_EQ(json_key_line(text, "none"), 0);
}

const char* const kYaml =
    "use_parallel: True\n"
    "parallel: {parallel_mode: 1, enable_parallel_optimizer: True}\n"
    "parallel_config:\n"
    "  data_parallel: 8\n"
    "  model_parallel: 4\n"
    "  pipeline_stage: 4\n"
    "  micro_batch_num: 16\n"
    "  vocab_emb_dp: True\n"
    "runner_config: {batch_size: 1}\n"
    "recompute_config: {recompute: True}\n"
    "model:\n"
    "  model_config:\n"
    "    num_layers: 40\n"
    "    hidden_size: 5120\n"
    "    num_heads: 40\n"
    "    vocab_size: 32000\n"
    "    seq_length: 4096\n"
    "    compute_dtype: bfloat16\n"
    "    use_flash_attention: True\n";

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

TEST(MindFormers, ARunFile) {
  const CheckReport report = check(kYaml, "run.yaml", 128);
  EXPECT_EQ(report.num_errors(), 0) << check_report_text(report);
  EXPECT_EQ(to_string(report.job.layout), "dp8.tp4.pp4.zero1");
  EXPECT_EQ(report.job.batch.global_batch_size, 128);
  EXPECT_EQ(report.job.model.ffn_hidden_size, 13824);
  EXPECT_EQ(report.job.layout.recompute, Recompute::kFull);
  EXPECT_EQ(report.job.stack, Stack::kMindFormers);
}

// Weights and gradients of param_init_type, f32 moments sharded over dp 8, no f32 copy.
TEST(MindFormers, States) {
  const auto states = [](const std::string& text) {
    const CheckReport report = check(text, "run.yaml", 128);
    const StageBytes& bytes = report.memory->stages[1].bytes;
    return (bytes.weights + bytes.gradients + bytes.optimizer) /
           report.memory->stages[1].parameters;
  };
  EXPECT_NEAR(states(kYaml), 2 + 2 + 8.0 / 8, 0.01);
  EXPECT_NEAR(states(replaced(kYaml, "compute_dtype: bfloat16",
                              "compute_dtype: bfloat16\n    param_init_type: float32")),
              4 + 4 + 8.0 / 8, 0.01);
}

TEST(MindFormers, BrokenRules) {
  const auto has = [](const std::string& from, const std::string& to, const std::string& key,
                      int line) {
    const CheckReport report = check(replaced(kYaml, from, to), "run.yaml", 128);
    const CheckProblem* problem = find(report, key);
    EXPECT_NE(problem, nullptr) << key << check_report_text(report);
    if (problem != nullptr) {
      EXPECT_EQ(problem->where.line, line) << key;
      EXPECT_EQ(problem->severity, Severity::kError);
    }
  };
  has("num_layers: 40", "num_layers: 42", "parallel_config.pipeline_stage", 6);
  has("micro_batch_num: 16", "micro_batch_num: 2", "parallel_config.micro_batch_num", 7);
  has("num_heads: 40", "num_heads: 42", "parallel_config.model_parallel", 5);
  has("parallel_mode: 1", "parallel_mode: 0", "parallel.parallel_mode", 2);
  has("num_layers: 40", "num_layers: 42\n    offset: [1, 0, 0, 0]", "model_config.offset", 14);
  has("data_parallel: 8", "data_parallel: 4", "number of devices", 0);
  EXPECT_EQ(check(replaced(kYaml, "num_layers: 40", "num_layers: 42\n    offset: [1, 0, 0, 1]"),
                  "run.yaml", 128)
                .num_errors(),
            0);
}

TEST(MindFormers, BadInput) {
  EXPECT_NE(refusal("a: [1, 2\nb: {", "run.yaml").find("run.yaml:"), std::string::npos);
  EXPECT_NE(refusal("a: 1\n", "run.yaml").find("no MindFormers"), std::string::npos);
  EXPECT_NE(refusal(std::string("run_mode: predict\n") + kYaml, "run.yaml").find("run.yaml:1"),
            std::string::npos);
  EXPECT_NE(refusal(replaced(kYaml, "data_parallel: 8", "data_parallel: 0"), "run.yaml")
                .find("run.yaml:4"),
            std::string::npos);
  EXPECT_NE(refusal(replaced(kYaml, "num_layers: 40", "num_layers: 1e30"), "run.yaml"), "accepted");
  EXPECT_NE(refusal(replaced(kYaml, "data_parallel: 8", "data_parallel: 999999999999999999999"),
                    "run.yaml"),
            "accepted");
}

TEST(MindFormers, UnknownKeysAreListed) {
  const CheckReport report =
      check(replaced(kYaml, "vocab_emb_dp: True", "use_seq_paralel: True"), "run.yaml", 128);
  ASSERT_EQ(report.unknown_flags.size(), 1U);
  EXPECT_EQ(report.unknown_flags[0].nearest, "use_seq_parallel");
  EXPECT_EQ(report.unknown_flags[0].where.line, 8);
  const auto unknown = [](const std::string& from, const std::string& to) {
    return problems_of(check(replaced(kYaml, from, to), "run.yaml", 128));
  };
  EXPECT_NE(unknown("{recompute: True}", "{recomput: True}").find("recompute_config.recomput"),
            std::string::npos);
  EXPECT_NE(unknown("hidden_size", "hiden_size").find("model_config.hiden_size"),
            std::string::npos);
  // Models have keys of their own.
  EXPECT_EQ(unknown("use_flash_attention: True", "use_flash_attention: True\n    my_switch: 1")
                .find("unknown"),
            std::string::npos);
}

TEST(MindFormers, RecomputationByStage) {
  const auto activations = [](const std::string& recompute, size_t stage) {
    const CheckReport report =
        check(replaced(kYaml, "recompute: True", "recompute: " + recompute), "run.yaml", 128);
    EXPECT_TRUE(report.memory.has_value()) << problems_of(report);
    return report.memory ? report.memory->stages[stage].bytes.activations : 0;
  };
  EXPECT_LT(activations("[4, 0, 0, 0]", 0), activations("[0, 0, 0, 0]", 0));
  EXPECT_GT(activations("[4, 0, 0, 0]", 0), activations("[10, 10, 10, 10]", 0));
  EXPECT_EQ(activations("[4, 0, 0, 0]", 1), activations("[0, 0, 0, 0]", 1));
  EXPECT_EQ(activations("[10, 10, 10, 10]", 2), activations("True", 2));
}

TEST(Trainer, LlamaFactory) {
  const char* yaml =
      "model_name_or_path: Qwen/Qwen3-8B\nstage: sft\nfinetuning_type: lora\nlora_rank: 16\n"
      "deepspeed: examples/deepspeed/ds_z2_config.json\ncutoff_len: 2048\n"
      "per_device_train_batch_size: 2\ngradient_accumulation_steps: 4\nbf16: true\n";
  const CheckReport report = check(yaml, "sft.yaml", 8);
  EXPECT_EQ(report.num_errors(), 0) << problems_of(report);
  EXPECT_EQ(to_string(report.job.layout), "dp8.zero2");
  EXPECT_EQ(report.job.batch.global_batch_size, 64);
  EXPECT_EQ(report.job.batch.seq_len, 2048);
  EXPECT_EQ(report.job.lora.rank, 16);
  EXPECT_EQ(report.job.layout.recompute, Recompute::kFull);  // LLaMA-Factory's default
  const std::string off = std::string(yaml) + "disable_gradient_checkpointing: true\n";
  EXPECT_EQ(check(off, "sft.yaml", 8).job.layout.recompute, Recompute::kNone);
}

TEST(Trainer, Swift) {
  const CheckReport report = check(
      "NPROC_PER_NODE=4 swift sft --model Qwen/Qwen3-8B --tuner_type full "
      "--deepspeed zero3_offload --per_device_train_batch_size 1 --max_length 4096\n",
      "sft.sh");
  EXPECT_EQ(report.num_errors(), 0) << problems_of(report);
  EXPECT_EQ(to_string(report.job.layout), "dp4.zero3");
  EXPECT_TRUE(report.job.offload_optimizer);
  EXPECT_EQ(report.job.lora.rank, 0);
}

TEST(Vllm, KvBytes) {
  EXPECT_DOUBLE_EQ(kv_bytes_on_device(find_model("Qwen3-8B"), 1, 1, 2), 147456);
  EXPECT_DOUBLE_EQ(kv_bytes_on_device(find_model("Qwen2.5-7B"), 1, 1, 2), 57344);
  EXPECT_DOUBLE_EQ(kv_bytes_on_device(find_model("Qwen2.5-7B"), 4, 1, 2), 14336);
  // Fewer kv heads than ranks are replicated.
  EXPECT_DOUBLE_EQ(kv_bytes_on_device(find_model("Qwen2.5-7B"), 28, 1, 2), 14336);
}

TEST(Vllm, HeadsAndLength) {
  EXPECT_NE(find(serve("vllm serve Qwen/Qwen2.5-7B-Instruct --tensor-parallel-size 8"),
                 "--tensor-parallel-size"),
            nullptr);
  EXPECT_TRUE(serve("vllm serve Qwen/Qwen2.5-7B-Instruct -tp 4 --max-model-len 8192").ok());
  EXPECT_NE(find(serve("vllm serve Qwen/Qwen3-8B --max-model-len 1000000"), "--max-model-len"),
            nullptr);
  EXPECT_TRUE(serve("VLLM_ALLOW_LONG_MAX_MODEL_LEN=1 vllm serve Qwen/Qwen3-8B --max-model-len "
                    "50000")
                  .ok());
  EXPECT_NE(find(serve("vllm serve Qwen/Qwen3-8B --gpu-memory-utilization 1.5"),
                 "--gpu-memory-utilization"),
            nullptr);
  EXPECT_EQ(serve("vllm serve Qwen/Qwen3-8B --max-modle-len 1024").unknown_flags.size(), 1U);
}

TEST(Vllm, BlocksThatAreSetByHandMustHoldOneSequence) {
  const char* flag = "--num-gpu-blocks-override";
  const std::string line = "vllm serve /models/mine --max-model-len 760000 ";
  const CheckReport report = serve(line + flag + " 8192");
  ASSERT_NE(find(report, flag), nullptr);
  EXPECT_NE(find(report, flag)->suggestion.find("131072"), std::string::npos);
  EXPECT_EQ(find(serve(line + flag + " 8192 --block-size 128"), flag), nullptr);
}

TEST(Vllm, TheCacheMustHoldOneSequence) {
  // 61 GiB of weights leave little of 80 GB.
  const CheckReport one = serve("vllm serve Qwen/Qwen3-32B --max-model-len 40960");
  const CheckProblem* problem = find(one, "--max-model-len");
  ASSERT_NE(problem, nullptr) << check_report_text(one);
  EXPECT_NE(problem->suggestion.find("--max-model-len "), std::string::npos);
  EXPECT_TRUE(serve("vllm serve Qwen/Qwen3-32B --max-model-len 40960 -tp 2").ok());
  // Experts spread over tp x dp, the rest over tp: 654e9 / 16 + 17e9 / 4 bytes.
  const CheckReport experts = serve(
      "vllm serve deepseek-ai/DeepSeek-V3.1 --max-model-len 32768 -tp 4 -dp 4 "
      "--enable-expert-parallel --quantization ascend");
  EXPECT_TRUE(experts.ok());
  EXPECT_NE(experts.serving.front().text.find("42.05 GiB on each of 16"), std::string::npos)
      << experts.serving.front().text;
  EXPECT_FALSE(serve("vllm serve deepseek-ai/DeepSeek-V3.1 --max-model-len 32768 -tp 4 "
                     "--quantization ascend")
                   .ok());
  EXPECT_NE(find(serve("vllm serve Qwen2.5-72B --max-model-len 4096"), "--tensor-parallel-size"),
            nullptr);
}

TEST(Vllm, OneServerNeedsAsManyDevicesAsItShows) {
  const CheckReport few =
      check("export ASCEND_RT_VISIBLE_DEVICES=0,1,2,3\nvllm serve m -tp 8\n", "serve.sh");
  EXPECT_NE(problems_of(few).find("shows 4 devices, but tp * pp * dp = 8"), std::string::npos)
      << problems_of(few);
  for (const char* fine : {"CUDA_VISIBLE_DEVICES=0,1 vllm serve m -tp 2\n",
                           "CUDA_VISIBLE_DEVICES=0,1 vllm serve m -tp 2 -pp 2 "
                           "--distributed-executor-backend ray\n",
                           "ray start --head\nCUDA_VISIBLE_DEVICES=0 vllm serve m -tp 2\n",
                           "CUDA_VISIBLE_DEVICES=$IDS vllm serve m -tp 2\n"}) {
    EXPECT_EQ(check(fine, "serve.sh").num_errors(), 0) << fine;
  }
}

TEST(Vllm, WhatTheShownDevicesHold) {
  const auto suggestion = [](const std::string& ids, const std::string& flags) {
    const CheckReport report =
        check("export CUDA_VISIBLE_DEVICES=" + ids + "\nvllm serve m " + flags + "\n", "serve.sh");
    const CheckProblem* problem = find(report, "CUDA_VISIBLE_DEVICES");
    return problem == nullptr ? "none" : problem->suggestion;
  };
  EXPECT_EQ(suggestion("0,1,2,3", "-tp 8"), "8 devices in it, or --tensor-parallel-size 4");
  EXPECT_EQ(suggestion("0,1,2,3,4,5", "-tp 8"), "8 devices in it, or --tensor-parallel-size 4");
  EXPECT_EQ(suggestion("0,1,2,3", "-tp 4 -pp 2"), "8 devices in it, or --pipeline-parallel-size 1");
  EXPECT_EQ(suggestion("0,1,2,3", "-tp 2 -dp 4"), "8 devices in it, or --data-parallel-size 2");
  EXPECT_EQ(suggestion("0,1", "-tp 2 -pp 2 -dp 2"),
            "8 devices in it, or --pipeline-parallel-size 1 --data-parallel-size 1");
  EXPECT_EQ(suggestion("0,1", "-tp 2 -dp 8 --data-parallel-size-local 2"),
            "4 devices in it, or --data-parallel-size-local 1");
}

TEST(Vllm, ServersOfKubernetes) {
  const std::string deployment = R"(apiVersion: apps/v1
kind: Deployment
metadata: {name: coder}
spec:
  replicas: 3
  template:
    spec:
      containers:
        - name: helper
          image: busybox
        - name: vllm
          command: [vllm, serve, Qwen/Qwen3-8B, --tensor-parallel-size, "4"]
          resources: {limits: {nvidia.com/gpu: DEVICES}}
)";
  EXPECT_EQ(check(replaced(deployment, "DEVICES", "4"), "coder.yaml").num_errors(), 0);
  const CheckReport one = check(replaced(deployment, "DEVICES", "1"), "coder.yaml");
  ASSERT_EQ(one.num_errors(), 1);
  EXPECT_EQ(one.problems[0].suggestion, "4 devices in resources.limits");
  EXPECT_NE(refusal(replaced(deployment, "DEVICES", "$GPUS"), "coder.yaml").find("envsubst"),
            std::string::npos);

  const std::string group = R"(apiVersion: leaderworkerset.x-k8s.io/v1
kind: LeaderWorkerSet
metadata: {name: r1}
spec:
  leaderWorkerTemplate:
    size: 2
    leaderTemplate:
      spec:
        containers:
          - name: leader
            command: [sh, -c, "start_ray.sh leader; python3 -m vllm.entrypoints.openai.api_server \
              --model deepseek-ai/DeepSeek-R1 -tp 8 -pp 2 --max-model-len 4096"]
            resources: {limits: {nvidia.com/gpu: "8"}}
    workerTemplate:
      spec:
        containers: [{name: worker, command: [sh, -c, start_ray.sh worker]}]
)";
  const CheckReport r1 = check(group, "r1.yaml");
  EXPECT_EQ(r1.num_errors(), 0) << problems_of(r1);
  EXPECT_EQ(r1.world_size, 16);
  // Its weights are published in FP8.
  EXPECT_NE(r1.serving[0].text.find("39."), std::string::npos) << r1.serving[0].text;
}

TEST(Vllm, ModuleForm) {
  const CheckReport report = serve(
      "python -m vllm.entrypoints.openai.api_server --model Qwen/Qwen3-8B "
      "--tensor-parallel-size 2 --max-model-len 32k");
  EXPECT_TRUE(report.ok()) << check_report_text(report);
  EXPECT_EQ(report.world_size, 2);
}

TEST(CheckReport, JsonHasItsParts) {
  const std::string text = check_report_json(check(kYaml, "run.yaml", 128));
  for (const char* key : {"\"problems\"", "\"unknown_flags\"", "\"assumptions\"", "\"memory\"",
                          "\"proposal\"", "\"job\"", "\"ok\""}) {
    EXPECT_NE(text.find(key), std::string::npos) << key;
  }
}

}  // namespace
}  // namespace plait
