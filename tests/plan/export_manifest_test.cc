// Exports that hold a launch script or a run file inside: `check` reads them, too.
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/file.h"
#include "export_jobs.h"
#include "plan/check.h"
#include "plan/plan_texts.h"
#include "support/test_files.h"

namespace plait {
namespace {

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at)) {
    text.replace(at, from.size(), to);
    at += to.size();
  }
  return text;
}

TEST(ExportManifest, KubernetesJobsReadBack) {
  for (const Stack stack : {Stack::kMegatron, Stack::kMindSpeed}) {
    for (const ExportKind kind : {ExportKind::kVolcano, ExportKind::kAscendJob}) {
      ExportRequest request = export_request("llama-2-13b", "dp2.tp8.sp.zero1");
      request.job.stack = stack;
      const ExportedFile file = export_plan(kind, request).front();
      const CheckReport report = check_text(file.text, file.name, {});
      EXPECT_EQ(report.num_errors(), 0) << problems_of(report) << file.text;
      EXPECT_EQ(report.world_size, 16);
      EXPECT_EQ(report.job.layout, request.job.layout);
      EXPECT_EQ(report.job.model.num_layers, request.job.model.num_layers);
      EXPECT_EQ(report.job.batch.global_batch_size, 512);
    }
  }
}

TEST(ExportManifest, PodsMustMakeTheWorld) {
  const ExportRequest request = export_request("llama-2-13b", "dp2.tp8.sp.zero1");
  const ExportedFile file = export_plan(ExportKind::kVolcano, request).front();
  // The classic: 8 servers for a script that starts 2.
  const std::string text = replaced(file.text, "replicas: 2", "replicas: 8");
  const CheckReport report = check_text(text, file.name, {});
  ASSERT_EQ(report.num_errors(), 1) << problems_of(report);
  EXPECT_EQ(report.problems.front().key, "replicas");
  EXPECT_EQ(report.problems.front().suggestion, "replicas=2");
  EXPECT_GT(report.problems.front().where.line, 0);
}

TEST(ExportManifest, JobsOfOtherOperators) {
  const std::string text =
      "apiVersion: kubeflow.org/v1\nkind: PyTorchJob\nmetadata: {name: a}\nspec:\n"
      "  pytorchReplicaSpecs:\n    Master:\n      replicas: 1\n      template:\n        spec:\n"
      "          containers:\n          - name: pytorch\n"
      "            command: [torchrun, --nnodes, '2', --nproc_per_node, '8', pretrain_gpt.py,\n"
      "              --num-layers, '46', --hidden-size, '512', --num-attention-heads, '8',\n"
      "              --pipeline-model-parallel-size, '4', --tensor-model-parallel-size, '4',\n"
      "              --micro-batch-size, '1', --global-batch-size, '8', --seq-length, '512']\n"
      "            resources: {limits: {nvidia.com/gpu: 8}}\n"
      "    Worker:\n      replicas: 1\n      template:\n        spec:\n"
      "          containers:\n          - name: pytorch\n"
      "            command: [torchrun, --nnodes, '2', --nproc_per_node, '8', pretrain_gpt.py,\n"
      "              --num-layers, '46', --hidden-size, '512', --num-attention-heads, '8',\n"
      "              --pipeline-model-parallel-size, '4', --tensor-model-parallel-size, '4',\n"
      "              --micro-batch-size, '1', --global-batch-size, '8', --seq-length, '512']\n"
      "            resources: {limits: {nvidia.com/gpu: 8}}\n";
  const CheckReport report = check_text(text, "job.yaml", {});
  EXPECT_EQ(report.world_size, 16);
  ASSERT_GE(report.num_errors(), 1);
  EXPECT_NE(problems_of(report).find("46"), std::string::npos) << problems_of(report);
  EXPECT_NE(report.kind.find("PyTorchJob"), std::string::npos);
}

TEST(ExportManifest, BadManifestsAreRefused) {
  const std::string head = "apiVersion: batch/v1\nkind: Job\n";
  for (const std::string& text :
       {head, head + "spec: 3\n", head + "spec: {template: {spec: {containers: []}}}\n",
        head + "spec: {parallelism: -1, template: {spec: {containers: [{command: [x]}]}}}\n",
        head + "spec: {template: {spec: {containers: [{command: [x]}]}}}\n", head + "a: [\n",
        // yaml-cpp makes empty documents of these without end.
        "," + head, "---\n," + head, "a: 1\n---\n,\n---\n" + head}) {
    EXPECT_THROW(check_text(text, "job.yaml", {}), Error) << text;
  }
}

TEST(ExportManifest, PlaitReadsBackAsTheJob) {
  const TestFolder folder;
  ExportRequest request = export_request("qwen3-0.6b", "dp2.tp2.pp2.sp.zero1", "a100");
  request.job.stack = Stack::kPlait;
  request.job.dtype = DType::kF32;
  request.job.overlap_grad_reduce = true;
  request.job.layout.stage_layers = {15, 13};
  std::string script, run;
  for (const ExportedFile& file : export_plan(ExportKind::kPlait, request)) {
    const std::string path = folder.file(file.name);
    write_file_atomic(path, file.text);
    script = path.ends_with(".sh") ? path : script;
    run = path.ends_with(".toml") ? path : run;
  }
  for (const std::string& path : {script, run}) {
    const CheckReport report = check_file(path, {});
    EXPECT_EQ(report.num_errors(), 0) << path << "\n" << problems_of(report);
    EXPECT_TRUE(report.unknown_flags.empty());
    EXPECT_EQ(report.world_size, 8);
    EXPECT_EQ(report.job.layout, request.job.layout);
    EXPECT_EQ(report.job.dtype, DType::kF32);
    EXPECT_EQ(report.job.batch.global_batch_size, 512);
    EXPECT_EQ(report.job.model.num_layers, 28);
  }
}

TEST(ExportManifest, PlaitRunFilesAreJudged) {
  CheckOptions options;
  options.read.model = "qwen3-0.6b";
  const CheckReport wrong =
      check_text("[layout]\nlayout = \"tp3\"\nrecomputes = \"full\"\n[optimizer]\nlr = 1e-3\n",
                 "run.toml", options);
  EXPECT_GE(wrong.num_errors(), 1) << problems_of(wrong);
  ASSERT_EQ(wrong.unknown_flags.size(), 1u);
  EXPECT_EQ(wrong.unknown_flags.front().nearest, "recompute");
  EXPECT_EQ(wrong.unknown_flags.front().where.line, 3);
  for (const char* text :
       {"[layout]\ntp = \"two\"\n", "[layout]\ntp = -1\n", "[machine]\nranks = 99999999999\n",
        "[model]\nprecision = \"f8\"\n", "[batch]\nseq_len = 1.5\n", "[layout\n"}) {
    EXPECT_THROW(check_text(text, "run.toml", options), Error) << text;
  }
}

TEST(ExportManifest, AChipWithoutBf16) {
  CheckOptions options;
  options.cluster = load_cluster("v100");
  const ExportRequest request = export_request("llama-2-7b", "dp1.tp8.sp", "v100");
  ExportRequest half = request;
  half.job.dtype = DType::kF16;
  const auto check = [&](const ExportRequest& r) {
    const ExportedFile file = export_plan(ExportKind::kMegatron, r).front();
    return check_text(file.text, file.name, options);
  };
  const CheckReport report = check(request);
  ASSERT_EQ(report.num_errors(), 1) << problems_of(report);
  EXPECT_EQ(report.problems.front().suggestion, "fp16");
  EXPECT_EQ(check(half).num_errors(), 0) << problems_of(check(half));
}

}  // namespace
}  // namespace plait
