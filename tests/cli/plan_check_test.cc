// plait plan check as a program: exit status, places in its messages, JSON.
#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "base/json_full.h"
#include "cli/program.h"

namespace plait {
namespace {

class PlanCheck : public testing::Test {
 protected:
  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_.file(name)) << text;
    return folder_.file(name);
  }
  TestFolder folder_;
};

const char* const kScript =
    "export CUDA_DEVICE_MAX_CONNECTIONS=1\n"
    "export HCCL_CONNECT_TIMEOUT=1200\n"
    "torchrun --nproc_per_node 8 pretrain_gpt.py --tensor-model-parallel-size 8 \\\n"
    "  --sequence-parallel --num-layers 32 --hidden-size 4096 --num-attention-heads 32 \\\n"
    "  --swiglu --bf16 --vocab-size 32000 --seq-length 4096 --max-position-embeddings 4096 \\\n"
    "  --micro-batch-size 1 --global-batch-size 8 --use-flash-attn --disable-bias-linear\n";

TEST_F(PlanCheck, AScriptThatWorks) {
  const Result result = run_plait({"plan", "check", write("ok.sh", kScript)});
  EXPECT_EQ(result.status, 0) << result.out << result.err;
  EXPECT_NE(result.out.find("0 errors"), std::string::npos);
}

TEST_F(PlanCheck, AVariableOutOfRangeIsNamedWithItsLine) {
  std::string text = kScript;
  text.replace(text.find("TIMEOUT=1200"), 12, "TIMEOUT=60");
  const std::string path = write("bad.sh", text);
  const Result result = run_plait({"plan", "check", path});
  EXPECT_EQ(result.status, 1);
  EXPECT_NE(result.out.find("bad.sh:2: error: HCCL_CONNECT_TIMEOUT=60"), std::string::npos)
      << result.out;
  const Result json = run_plait({"plan", "check", path, "--json"});
  EXPECT_EQ(json.status, 1);
  const Json report = parse_json(json.out, "stdout");
  EXPECT_EQ(report["ok"], false);
  EXPECT_EQ(report["problems"][0]["where"]["line"], 2);
}

TEST_F(PlanCheck, SeveralFiles) {
  std::string text = kScript;
  text.replace(text.find("TIMEOUT=1200"), 12, "TIMEOUT=60");
  const std::string good = write("ok.sh", kScript);
  const std::string bad = write("bad.sh", text);
  const std::string foreign = write("other.sh", "python3 -m some.trainer a=1\n");
  EXPECT_EQ(run_plait({"plan", "check", good, good}).status, 0);
  const Result both = run_plait({"plan", "check", good, bad, "--json"});
  EXPECT_EQ(both.status, 1);
  const Json reports = parse_json(both.out, "stdout");
  ASSERT_EQ(reports.size(), 2U);
  EXPECT_EQ(reports[0]["ok"], true);
  EXPECT_EQ(reports[1]["ok"], false);
  const Result all = run_plait({"plan", "check", foreign, bad, "--json"});
  EXPECT_EQ(all.status, 2);
  EXPECT_EQ(parse_json(all.out, "stdout").size(), 1U);
  EXPECT_NE(all.err.find("other.sh"), std::string::npos);
}

TEST_F(PlanCheck, PlainArguments) {
  const Result result =
      run_plait({"plan", "check", "--devices", "2", "--", "--num-layers", "48",
                 "--pipeline-model-parallel-size", "2", "--decoder-first-pipeline-num-layers", "11",
                 "--decoder-last-pipeline-num-layers", "13"});
  EXPECT_EQ(result.status, 1);
  EXPECT_NE(result.out.find("24 layers would be ignored"), std::string::npos) << result.out;
}

TEST_F(PlanCheck, WhatCannotBeReadExitsWithTwo) {
  const auto refused = [&](const std::string& name, const std::string& text,
                           const std::string& place) {
    const Result result = run_plait({"plan", "check", write(name, text)});
    EXPECT_EQ(result.status, 2) << result.out;
    EXPECT_NE(result.err.find(place), std::string::npos) << result.err;
  };
  refused("open.sh", "true\ntorchrun 'x\n", "open.sh:2");
  refused("eval.sh", "true\ntrue\neval $(cat /etc/hostname)\n", "eval.sh:3");
  refused("size.sh", "torchrun x.py --num-layers 1000000000000000000000000000000\n", "size.sh:1");
  refused("none.sh", "echo hello\n", "none.sh");
  refused("cut.json", "{\"train_batch_size\": 1", "cut.json");
  refused("cut.yaml", "a: [1\nb: {", "cut.yaml");
  EXPECT_EQ(run_plait({"plan", "check", folder_.file("absent.sh")}).status, 2);
}

TEST_F(PlanCheck, NothingOfAScriptIsRun) {
  const std::string marker = folder_.file("marker");
  const std::string script = write("tricks.sh", "X=$(touch " + marker + ")\n`touch " + marker +
                                                    "`\ntouch " + marker + "\n" + kScript);
  EXPECT_EQ(run_plait({"plan", "check", script}).status, 0);
  EXPECT_FALSE(std::ifstream(marker).good());
}

}  // namespace
}  // namespace plait
