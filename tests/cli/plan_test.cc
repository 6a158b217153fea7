// plait plan as a user types it: results, and refusals with exit status 2 that name the key.
#include "base/json_full.h"
#include "cli/program.h"

namespace plait {
namespace {

using Args = std::vector<std::string>;

const Args kProblem = {"--model",        "llama2-7b", "--cluster", "910b",
                       "--global-batch", "64",        "--seq",     "4096"};

Args plan(Args front, const Args& more = {}) {
  front.insert(front.begin(), "plan");
  front.insert(front.end(), kProblem.begin(), kProblem.end());
  front.insert(front.end(), more.begin(), more.end());
  return front;
}

TEST(PlanCommand, SearchAsJson) {
  const Result result = run_plait(plan({}, {"--json", "--top", "3"}));
  ASSERT_EQ(result.status, 0) << result.err;
  const Json json = parse_json(result.out, "stdout");
  ASSERT_EQ(json["best"].size(), size_t{3});
  EXPECT_GT(json["counts"]["enumerated"].get<int64_t>(), 100);
  const Json& best = json["best"][0];
  EXPECT_EQ(best["layout"]["dp"].get<int>() * best["layout"]["tp"].get<int>() *
                best["layout"]["pp"].get<int>() * best["layout"]["cp"].get<int>(),
            8);
  EXPECT_LE(best["step_s"]["low"].get<double>(), best["step_s"]["best"].get<double>());
}

TEST(PlanCommand, SearchAsText) {
  const Result result = run_plait(plan({}, {"--tokens", "1e12", "--fix", "tp=8"}));
  ASSERT_EQ(result.status, 0) << result.err;
  for (const char* part :
       {"tp8", "MFU", "slower", "device hours", "datasheet", "holds sequences"}) {
    EXPECT_NE(result.out.find(part), std::string::npos) << part << "\n" << result.out;
  }
}

TEST(PlanCommand, NothingFitsIsStatus1) {
  const Result result = run_plait({"plan", "--model", "deepseek-v3", "--cluster", "910b",
                                   "--global-batch", "64", "--seq", "4096"});
  EXPECT_EQ(result.status, 1) << result.err;
  EXPECT_NE(result.out.find("Nothing fits"), std::string::npos) << result.out;
}

TEST(PlanCommand, EstimateAndDiff) {
  const Result one = run_plait(plan({"estimate"}, {"--layout", "tp8.sp"}));
  EXPECT_EQ(one.status, 0) << one.err;
  EXPECT_NE(one.out.find("activations"), std::string::npos);
  const Result two = run_plait(plan({"diff", "tp8.sp", "pp4.zero1"}, {"--devices", "8", "--json"}));
  EXPECT_EQ(two.status, 0) << two.err;
  EXPECT_EQ(parse_json(two.out, "stdout").size(), size_t{2});
}

TEST(PlanCommand, ServeAndExplain) {
  const Result serve = run_plait({"plan", "serve", "--model", "Qwen3-8B", "--cluster", "910b3",
                                  "--prompt", "2048", "--output", "256", "--rate", "1000"});
  EXPECT_EQ(serve.status, 1);
  EXPECT_NE(serve.out.find("saturated at"), std::string::npos) << serve.out;
  EXPECT_NE(serve.out.find("147456 B"), std::string::npos) << serve.out;
  const Result explain = run_plait(plan({"explain"}, {"--layout", "tp8.sp", "--step-s", "1000"}));
  EXPECT_EQ(explain.status, 0) << explain.err;
  EXPECT_NE(explain.out.find("outside"), std::string::npos) << explain.out;
}

// The published order at 32K on 910B (MindSpeed, Llama2-7B, CP4): rotary positions reach beyond the
// pretrained length.
TEST(PlanCommand, UlyssesBeatsTheRingAtThirtyTwoThousand) {
  double step[2] = {};
  for (const int ulysses : {0, 1}) {
    const Result result = run_plait({"plan", "estimate", "--model", "llama2-7b", "--cluster",
                                     "910b", "--global-batch", "64", "--seq", "32768", "--layout",
                                     "dp2.cp4.zero1", "--recompute", "full", "--cp-algorithm",
                                     ulysses == 1 ? "ulysses" : "ring", "--json"});
    ASSERT_EQ(result.err, "");
    step[ulysses] = parse_json(result.out, "stdout")["step_s"]["best"].get<double>();
  }
  EXPECT_LT(step[1], step[0]);
}

TEST(PlanCommand, DevicesWithoutARowAreExplained) {
  const Result result = run_plait(plan({}, {"--devices", "1000000"}));
  EXPECT_EQ(result.status, 1);
  EXPECT_NE(result.out.find("global batch of 64"), std::string::npos) << result.out;
  EXPECT_EQ(result.out.find("Nothing fits"), std::string::npos) << result.out;
}

TEST(PlanCommand, RefusalsNameTheKey) {
  const struct {
    Args args;
    const char* part;
  } cases[] = {
      {{"plan", "--model", "nosuch", "--cluster", "910b", "--global-batch", "1", "--seq", "1"},
       "nosuch"},
      {{"plan", "--model", "llama2-7b", "--cluster", "910z", "--global-batch", "1", "--seq", "1"},
       "910z"},
      {{"plan", "--model", "llama2-7b", "--cluster", "910b"}, "--global-batch"},
      {plan({}, {"--devices", "-8"}), "devices"},
      {plan({}, {"--fix", "tp=0"}), "tp=0"},
      {plan({}, {"--fix", "tp=3"}), "tp"},
      {plan({}, {"--fix", "warp=2"}), "warp"},
      {plan({}, {"--fix", "tp=2.5"}), "tp=2.5"},
      {plan({}, {"--goal", "luck"}), "luck"},
      {plan({}, {"--top", "0"}), "top"},
      {plan({}, {"--threads", "100000"}), "threads"},
      {plan({}, {"--max-tp", "-3"}), "max-tp"},
      {plan({}, {"--tokens", "-1e9"}), "tokens"},
      {plan({}, {"--etp", "-1"}), "etp"},
      {plan({}, {"--lora-rank", "-1"}), "lora_rank"},
      {plan({}, {"--dropout", "nan"}), "dropout"},
      {plan({}, {"--stack", "tensorflow"}), "tensorflow"},
      {plan({}, {"--dtype", "int3"}), "int3"},
      {plan({}, {"--dropout", "2"}), "dropout"},
      {plan({"estimate"}, {"--layout", "tp3.pp4"}), "tp=3"},
      {plan({"estimate"}, {"--layout", "pp5"}), "pp"},
      {plan({"estimate"}, {"--layout", "tp8.zz4"}), "zz4"},
      {plan({"estimate"}, {"--layout", "pp2", "--stage-layers", "a,b"}), "stage_layers"},
      {plan({"estimate"}, {"--layout", "pp8", "--recompute-layers", "2"}), "recompute_layers"},
      {plan({"estimate"}, {"--layout", "pp8", "--recompute", "full", "--recompute-layers", "-3"}),
       "recompute_layers"},
      {{"plan", "estimate", "--model", "gpt-3-175b", "--cluster", "910bx8", "--global-batch", "64",
        "--seq", "32768", "--layout", "tp8.pp8"},
       "seq_len"},
      {{"plan", "estimate", "--model", "mixtral-8x7b", "--cluster", "910bx4", "--global-batch",
        "64", "--seq", "4096", "--layout", "dp8.pp4.ep8", "--pp-before-dp"},
       "pp_before_dp"},
      {plan({"estimate"}, {"--layout", "pp8", "--schedule", "interleaved"}), "schedule"},
      {plan({"estimate"}), "--layout"},
      {{"plan", "estimate", "--model", "llama2-7b", "--cluster", "910b", "--global-batch",
        "1000000000000000000000000000000", "--seq", "1", "--layout", "dp1"},
       "global_batch"},
      {{"plan", "serve", "--model", "Qwen3-8B", "--cluster", "910b3", "--prompt", "0", "--output",
        "1"},
       "prompt"},
      {{"plan", "score", "/nonexistent.csv", "--cluster", "a100"}, "/nonexistent.csv"},
      {{"plan", "check", "/nonexistent.sh"}, "/nonexistent.sh"},
      {{"plan", "bogus"}, "bogus"},
  };
  for (const auto& c : cases) {
    const Result result = run_plait(c.args);
    EXPECT_EQ(result.status, 2) << c.part << "\n" << result.out << result.err;
    EXPECT_NE(result.err.find(c.part), std::string::npos) << c.part << "\n" << result.err;
    EXPECT_LE(result.err.size(), 2500U) << result.err;
  }
}

}  // namespace
}  // namespace plait
