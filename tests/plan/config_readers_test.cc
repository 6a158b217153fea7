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
  EXPECT_NE(find(serve("vllm serve Qwen/Qwen3-8B --gpu-memory-utilization 1.5"),
                 "--gpu-memory-utilization"),
            nullptr);
  EXPECT_EQ(serve("vllm serve Qwen/Qwen3-8B --max-modle-len 1024").unknown_flags.size(), 1U);
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
