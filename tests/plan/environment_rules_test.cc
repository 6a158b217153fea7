#include "plan/environment_rules.h"

#include <gtest/gtest.h>

#include <string>

#include "plan/check.h"

namespace plait {
namespace {

// Problems of variables in a script that exports `lines`.
std::vector<CheckProblem> problems_of(const std::string& lines, const std::string& flags = "") {
  const CheckReport report = check_text(
      lines +
          "\ntorchrun --nproc_per_node 8 pretrain_gpt.py --micro-batch-size 1 --seq-length "
          "4096 --bf16 " +
          flags + "\n",
      "run.sh", {});
  return report.problems;
}

bool refuses(const std::string& line, const std::string& name) {
  for (const CheckProblem& problem : problems_of("export " + line)) {
    if (problem.key == name && problem.severity == Severity::kError) {
      EXPECT_EQ(problem.where.text(), "run.sh:1");
      EXPECT_FALSE(problem.suggestion.empty());
      EXPECT_FALSE(problem.source.empty());
      return true;
    }
  }
  return false;
}

TEST(EnvironmentRules, RangesOfIntegers) {
  for (const char* bad : {"60", "0", "119", "7201", "-1", "abc", "1e3", ""}) {
    EXPECT_TRUE(refuses(std::string("HCCL_CONNECT_TIMEOUT=") + bad, "HCCL_CONNECT_TIMEOUT")) << bad;
  }
  for (const char* good : {"120", "1200", "7200"}) {
    EXPECT_FALSE(refuses(std::string("HCCL_CONNECT_TIMEOUT=") + good, "HCCL_CONNECT_TIMEOUT"));
  }
  EXPECT_TRUE(refuses("HCCL_RDMA_TC=130", "HCCL_RDMA_TC"));  // not a multiple of 4
  EXPECT_FALSE(refuses("HCCL_RDMA_TC=132", "HCCL_RDMA_TC"));
  EXPECT_TRUE(refuses("HCCL_IF_BASE_PORT=80", "HCCL_IF_BASE_PORT"));
  EXPECT_TRUE(refuses("HCCL_BUFFSIZE=0", "HCCL_BUFFSIZE"));
  EXPECT_FALSE(refuses("HCCL_EXEC_TIMEOUT=0", "HCCL_EXEC_TIMEOUT"));
  EXPECT_TRUE(refuses("HCCL_DETERMINISTIC=maybe", "HCCL_DETERMINISTIC"));
  EXPECT_FALSE(refuses("HCCL_DETERMINISTIC=TRUE", "HCCL_DETERMINISTIC"));
}

TEST(EnvironmentRules, AlgorithmSyntax) {
  for (const char* bad : {"Tree", "tree", "Ring", "level0:ring", "level1:Tree", "level3:ring",
                          "allreduce=Tree", "level0:NA,level1:ring"}) {
    EXPECT_TRUE(refuses(std::string("HCCL_ALGO='") + bad + "'", "HCCL_ALGO")) << bad;
  }
  for (const char* good : {"level0:NA;level1:H-D_R", "level0:NA;level1:NHR;level2:ring",
                           "allreduce=level0:NA;level1:ring/allgather=level0:NA;level1:H-D_R"}) {
    EXPECT_FALSE(refuses(std::string("HCCL_ALGO='") + good + "'", "HCCL_ALGO")) << good;
  }
}

TEST(EnvironmentRules, Allocator) {
  EXPECT_TRUE(refuses("PYTORCH_NPU_ALLOC_CONF=max_split_size_mb=128", "PYTORCH_NPU_ALLOC_CONF"));
  EXPECT_TRUE(refuses("PYTORCH_NPU_ALLOC_CONF=pre_alloc:1", "PYTORCH_NPU_ALLOC_CONF"));
  EXPECT_FALSE(
      refuses("PYTORCH_NPU_ALLOC_CONF=expandable_segments:True", "PYTORCH_NPU_ALLOC_CONF"));
}

TEST(EnvironmentRules, Devices) {
  EXPECT_TRUE(refuses("ASCEND_RT_VISIBLE_DEVICES=3,1", "ASCEND_RT_VISIBLE_DEVICES"));
  EXPECT_TRUE(refuses("ASCEND_RT_VISIBLE_DEVICES=0,x", "ASCEND_RT_VISIBLE_DEVICES"));
  EXPECT_FALSE(refuses("ASCEND_RT_VISIBLE_DEVICES=0,1,2,3,4,5,6,7", "ASCEND_RT_VISIBLE_DEVICES"));
  // Eight processes are started.
  EXPECT_TRUE(refuses("ASCEND_RT_VISIBLE_DEVICES=0,1,2", "ASCEND_RT_VISIBLE_DEVICES"));
}

TEST(EnvironmentRules, NamesThatNothingReadsAndExports) {
  const auto warned = [](const std::string& lines, const std::string& name) {
    for (const CheckProblem& problem : problems_of(lines)) {
      if (problem.key == name && problem.severity == Severity::kWarning) {
        return true;
      }
    }
    return false;
  };
  EXPECT_TRUE(warned("export HCCL_CONECT_TIMEOUT=1200", "HCCL_CONECT_TIMEOUT"));
  EXPECT_TRUE(warned("export ALLOCATOR_FLAGS=pre_alloc_memory:0", "ALLOCATOR_FLAGS"));
  EXPECT_TRUE(warned("HCCL_CONNECT_TIMEOUT=1200", "HCCL_CONNECT_TIMEOUT"));  // not exported
  EXPECT_FALSE(warned("export HCCL_CONNECT_TIMEOUT=1200", "HCCL_CONNECT_TIMEOUT"));
}

TEST(EnvironmentRules, QueueOfMegatron) {
  const auto severity = [](const std::string& lines, const std::string& flags) {
    for (const CheckProblem& problem : problems_of(lines, flags)) {
      if (problem.key == "CUDA_DEVICE_MAX_CONNECTIONS") {
        return std::string(severity_name(problem.severity));
      }
    }
    return std::string("none");
  };
  const std::string tp = "--tensor-model-parallel-size 2";
  EXPECT_EQ(severity("export CUDA_DEVICE_MAX_CONNECTIONS=8", tp), "error");
  EXPECT_EQ(severity("export CUDA_DEVICE_MAX_CONNECTIONS=1", tp), "none");
  EXPECT_EQ(severity("true", tp), "warning");
  EXPECT_EQ(severity("true", ""), "none");
  EXPECT_EQ(severity("export CUDA_DEVICE_MAX_CONNECTIONS=1", "--use-torch-fsdp2"), "error");
}

}  // namespace
}  // namespace plait
