#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "base/error.h"
#include "base/file.h"
#include "export_jobs.h"
#include "plan/check.h"
#include "plan/plan_texts.h"
#include "plan/search.h"
#include "support/test_files.h"

namespace plait {
namespace {

// Bash parses it; nothing runs.
bool bash_accepts(const std::string& text) {
  const std::string path = testing::TempDir() + "plait_export_test.sh";
  write_file_atomic(path, text);
  const bool fine = std::system(("bash -n '" + path + "'").c_str()) == 0;
  std::filesystem::remove(path);
  return fine;
}

void expect_same_model(const ModelConfig& read, const ModelConfig& written) {
  EXPECT_EQ(read.num_layers, written.num_layers);
  EXPECT_EQ(read.hidden_size, written.hidden_size);
  EXPECT_EQ(read.ffn_hidden_size, written.ffn_hidden_size);
  EXPECT_EQ(read.num_heads, written.num_heads);
  EXPECT_EQ(read.num_kv_heads, written.num_kv_heads);
  EXPECT_EQ(read.head_dim, written.head_dim);
  EXPECT_EQ(read.vocab_size, written.vocab_size);
  EXPECT_EQ(read.max_position_embeddings, written.max_position_embeddings);
  EXPECT_EQ(read.tie_word_embeddings, written.tie_word_embeddings);
  EXPECT_EQ(read.qk_norm, written.qk_norm);
  EXPECT_EQ(read.qkv_bias, written.qkv_bias);
  EXPECT_EQ(read.o_bias, written.o_bias);
  EXPECT_EQ(read.mlp_bias, written.mlp_bias);
  EXPECT_EQ(read.norm, written.norm);
  EXPECT_EQ(read.position, written.position);
  EXPECT_EQ(read.gated_mlp, written.gated_mlp);
  EXPECT_EQ(read.moe.num_experts, written.moe.num_experts);
  EXPECT_EQ(read.moe.experts_per_token, written.moe.experts_per_token);
  EXPECT_EQ(read.moe.ffn_hidden_size, written.moe.ffn_hidden_size);
  EXPECT_EQ(read.moe.shared_ffn_hidden_size, written.moe.shared_ffn_hidden_size);
  EXPECT_EQ(read.moe.first_dense_layers, written.moe.first_dense_layers);
  EXPECT_EQ(read.mla.kv_lora_rank, written.mla.kv_lora_rank);
  EXPECT_EQ(read.mla.q_lora_rank, written.mla.q_lora_rank);
  EXPECT_EQ(read.mla.nope_head_dim, written.mla.nope_head_dim);
  EXPECT_EQ(read.mla.rope_head_dim, written.mla.rope_head_dim);
  EXPECT_EQ(read.mla.v_head_dim, written.mla.v_head_dim);
}

void expect_same_job(const TrainJob& read, const TrainJob& written) {
  EXPECT_EQ(describe_layout(read), describe_layout(written));
  EXPECT_EQ(read.layout, written.layout);
  EXPECT_EQ(read.stack, written.stack);
  EXPECT_EQ(read.dtype, written.dtype);
  EXPECT_EQ(read.batch.global_batch_size, written.batch.global_batch_size);
  EXPECT_EQ(read.batch.micro_batch_size, written.batch.micro_batch_size);
  EXPECT_EQ(read.batch.seq_len, written.batch.seq_len);
  EXPECT_EQ(read.vocab_multiple, written.vocab_multiple);
  EXPECT_EQ(read.etp, written.etp);
  EXPECT_EQ(read.flash_attention, written.flash_attention);
  EXPECT_DOUBLE_EQ(read.dropout, written.dropout);
  EXPECT_EQ(read.recompute_layers, written.recompute_layers);
  EXPECT_EQ(read.overlap_grad_reduce, written.overlap_grad_reduce);
  EXPECT_EQ(read.overlap_param_gather, written.overlap_param_gather);
  EXPECT_EQ(read.overlap_tp_comm, written.overlap_tp_comm);
  EXPECT_EQ(read.reuse_fp32_param, written.reuse_fp32_param);
  EXPECT_EQ(read.offload_optimizer, written.offload_optimizer);
  EXPECT_EQ(read.grad_bytes, written.grad_bytes);
  EXPECT_EQ(read.comm_buffer_bytes, written.comm_buffer_bytes);
  EXPECT_EQ(read.lora.rank, written.lora.rank);
  if (written.layout.cp > 1) {
    EXPECT_EQ(read.cp_algorithm, written.cp_algorithm);
  }
  expect_same_model(read.model, written.model);
}

// What the check of an exported script reads is what was exported.
void expect_round_trip(ExportKind kind, ExportRequest request) {
  const std::vector<ExportedFile> files = export_plan(kind, request);
  const ExportedFile& script = files.front();
  ASSERT_TRUE(bash_accepts(script.text)) << script.text;
  const CheckReport report = check_text(script.text, script.name, {});
  EXPECT_EQ(report.num_errors(), 0) << problems_of(report) << script.text;
  EXPECT_TRUE(report.unknown_flags.empty()) << problems_of(report);
  EXPECT_EQ(report.world_size, request.job.layout.world_size());
  if (kind == ExportKind::kMegatron) {
    request.job.stack = Stack::kMegatron;
  }
  expect_same_job(report.job, request.job);
}

TEST(ExportScript, MegatronReadsBackAsTheJob) {
  for (const NamedRequest& named : megatron_requests()) {
    SCOPED_TRACE(named.name);
    expect_round_trip(ExportKind::kMegatron, named.request);
  }
}

TEST(ExportScript, MindSpeedReadsBackAsTheJob) {
  for (const NamedRequest& named : megatron_requests()) {
    SCOPED_TRACE(named.name);
    ExportRequest request = named.request;
    request.job.comm_buffer_bytes = int64_t{128} << 20;
    request.job.reuse_fp32_param =
        request.job.dtype == DType::kBF16 && !request.job.offload_optimizer;
    if (request.job.model.moe.num_experts > 0) {
      request.job.overlap_tp_comm = false;
    }
    expect_round_trip(ExportKind::kMindSpeed, request);
  }
}

TEST(ExportScript, MegatronShardsParametersByFsdp) {
  ExportRequest request = export_request("llama-2-7b", "dp8.zero3", "a100");
  expect_round_trip(ExportKind::kMegatron, request);
  request.job.layout.zero = 2;
  expect_round_trip(ExportKind::kMegatron, request);
  EXPECT_NE(export_refusal(ExportKind::kMindSpeed, request).find("zero = 2"), std::string::npos);
}

TEST(ExportScript, MindSpeedTunesAdapters) {
  ExportRequest request = export_request("qwen3-8b", "dp4.tp2");
  request.job.lora = {.rank = 16, .qkv = true, .o = true, .mlp = false};
  expect_round_trip(ExportKind::kMindSpeed, request);
  const std::string script = export_plan(ExportKind::kMindSpeed, request).front().text;
  EXPECT_NE(script.find("posttrain_gpt.py"), std::string::npos);
  EXPECT_NE(script.find("--lora-target-modules linear_qkv linear_proj\n"), std::string::npos);
  EXPECT_NE(export_refusal(ExportKind::kMegatron, request).find("lora rank = 16"),
            std::string::npos);
}

TEST(ExportScript, EveryUnsetVariableStopsTheScript) {
  const ExportRequest request = export_request("llama-2-13b", "dp2.tp8.sp.zero1");
  const std::string script = export_plan(ExportKind::kMegatron, request).front().text;
  for (const char* name :
       {"MEGATRON_PATH", "DATA_PATH", "TOKENIZER_PATH", "NODE_RANK", "MASTER_ADDR"}) {
    EXPECT_NE(script.find(std::string(": \"${") + name + ":?"), std::string::npos) << name;
  }
  const std::string path = testing::TempDir() + "plait_export_unset.sh";
  write_file_atomic(path, script);
  // Without them it ends before torchrun is looked for.
  EXPECT_NE(std::system(("env -i PATH=/usr/bin:/bin bash '" + path + "' 2> /dev/null").c_str()), 0);
  std::filesystem::remove(path);
}

TEST(ExportScript, ACatalogueModelAsksForWhatItsSizesDoNotTell) {
  ExportRequest request = export_request("qwen3-8b", "tp8");
  request.sizes_only = true;
  const std::string script = export_plan(ExportKind::kMindSpeed, request).front().text;
  EXPECT_EQ(script.find("--rotary-base 10000\n"), std::string::npos);
  EXPECT_NE(script.find("${ROPE_ARGS:?"), std::string::npos);
  EXPECT_NE(script.find("${NORM_EPSILON:?"), std::string::npos);
  const CheckReport report = check_text(script, "a-job.sh", {});
  EXPECT_EQ(report.num_errors(), 0) << problems_of(report);
}

TEST(ExportScript, SlurmIsOneFileThatCheckReads) {
  const ExportRequest request = export_request("llama-2-13b", "dp2.tp8.sp.zero1");
  expect_round_trip(ExportKind::kSlurm, request);
  const ExportedFile script = export_plan(ExportKind::kSlurm, request).front();
  EXPECT_EQ(script.name, "a-job.sbatch");
  for (const char* line :
       {"#SBATCH --nodes=2\n", "#SBATCH --ntasks-per-node=1\n", "#SBATCH --gres=npu:8\n"}) {
    EXPECT_NE(script.text.find(line), std::string::npos) << line;
  }
  // Directives end at the first command.
  EXPECT_LT(script.text.rfind("#SBATCH"), script.text.find("set -euo"));
}

TEST(ExportScript, SlurmStartsARankOfPlaitOnEachDevice) {
  ExportRequest request = export_request("qwen3-0.6b", "dp4.tp4.zero1", "a100");
  request.job.stack = Stack::kPlait;
  const std::vector<ExportedFile> files = export_plan(ExportKind::kSlurm, request);
  ASSERT_EQ(files.size(), 4u);
  EXPECT_TRUE(bash_accepts(files[0].text));
  EXPECT_NE(files[0].text.find("#SBATCH --ntasks-per-node=8\n"), std::string::npos);
  EXPECT_NE(files[0].text.find("srun --mpi=pmix --ntasks=16"), std::string::npos);
}

TEST(ExportScript, SlurmWrapsOtherStacks) {
  for (const Stack stack : {Stack::kDeepSpeed, Stack::kMindFormers}) {
    ExportRequest request = export_request("llama-2-7b", "dp16.zero1");
    request.job.stack = stack;
    const std::vector<ExportedFile> files = export_plan(ExportKind::kSlurm, request);
    ASSERT_EQ(files.size(), 3u);
    for (const ExportedFile& file : files) {
      if (file.executable) {
        EXPECT_TRUE(bash_accepts(file.text)) << file.text;
      }
    }
    EXPECT_NE(files[0].text.find("NODE_RANK=$SLURM_NODEID"), std::string::npos);
  }
}

TEST(ExportScript, VllmServes) {
  ExportRequest request = export_request("qwen3-8b", "dp4.tp4");
  request.job.batch.seq_len = 32768;
  const ExportedFile script = export_plan(ExportKind::kVllmAscend, request).front();
  EXPECT_TRUE(bash_accepts(script.text));
  for (const char* part : {"--tensor-parallel-size 4\n", "--data-parallel-size 4\n",
                           "--data-parallel-size-local 2\n", "--max-model-len 32768\n",
                           "--gpu-memory-utilization 0.9\n", "vllm serve \"$MODEL_PATH\""}) {
    EXPECT_NE(script.text.find(part), std::string::npos) << part << script.text;
  }
  request.job.layout = parse_layout("tp8.pp2.zero1");
  const std::string text = export_refusal(ExportKind::kVllmAscend, request);
  EXPECT_NE(text.find("tp x pp = 16"), std::string::npos) << text;
  EXPECT_NE(text.find("zero = 1"), std::string::npos) << text;
}

TEST(ExportScript, WhatMegatronCannotExpressIsNamed) {
  ExportRequest request = export_request("baichuan2-13b", "tp8");
  request.job.reuse_fp32_param = true;
  request.job.swap_attention = true;
  request.job.recompute_activation_layers = -1;
  request.job.overlap_tp_comm = true;
  request.job.overlap_param_gather = true;
  const std::string text = export_refusal(ExportKind::kMegatron, request);
  for (const char* part : {"reuse_fp32_param", "swap_attention", "recompute_activation_layers",
                           "overlap_tp_comm", "overlap_param_gather", "ALiBi"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  }
}

TEST(ExportScript, AJobWithProblemsIsNotWritten) {
  ExportRequest request = export_request("llama-2-13b", "tp8");
  request.job.batch.micro_batch_size = 3;
  EXPECT_NE(export_refusal(ExportKind::kMegatron, request).find("global_batch_size"),
            std::string::npos);
  request = export_request("llama-2-13b", "tp8");
  request.name = "My Job";
  EXPECT_NE(export_refusal(ExportKind::kMegatron, request).find("lower-case"), std::string::npos);
  request.name = "$(reboot)";
  EXPECT_NE(export_refusal(ExportKind::kMegatron, request).find("lower-case"), std::string::npos);
  EXPECT_THROW(parse_export_kind("horovod"), Error);
}

TEST(ExportScript, TextOfTheUserStaysText) {
  ExportRequest request = export_request("llama-2-13b", "tp8");
  request.job.model_name = "a\n$(touch /tmp/x)`id`";
  const std::string script = export_plan(ExportKind::kMegatron, request).front().text;
  EXPECT_TRUE(bash_accepts(script));
  EXPECT_EQ(script.find("\n$(touch"), std::string::npos);
}

}  // namespace
}  // namespace plait
