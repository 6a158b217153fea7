// What plait prints for programs: JSON with the keys that people build on.
#include <fstream>
#include <set>

#include "base/file.h"
#include "base/json_full.h"
#include "cli/program.h"

namespace plait {
namespace {

void expect_keys(const Json& json, const std::set<std::string>& expected) {
  std::set<std::string> keys;
  for (const auto& [key, value] : json.items()) {
    keys.insert(key);
  }
  for (const std::string& key : expected) {
    EXPECT_EQ(keys.count(key), 1U) << key << " is missing in " << json.dump();
  }
}

Json run_json(const std::vector<std::string>& args, int status = 0) {
  const Result result = run_plait(args);
  EXPECT_EQ(result.status, status) << result.err;
  return parse_json(result.out, "stdout");
}

class Outputs : public testing::Test {
 protected:
  std::string file(const std::string& name) const { return folder_.file(name); }
  TrainFolder folder_;
};

TEST_F(Outputs, DataBuildAndExport) {
  const Json built =
      run_json({"data", "build", "--input", file("text.txt"), "--output", file("again"), "--json"});
  const auto bytes = static_cast<int64_t>(std::filesystem::file_size(file("text.txt")));
  EXPECT_EQ(built["documents"], 1);
  EXPECT_EQ(built["text_bytes"], bytes);
  EXPECT_EQ(built["tokens"], bytes + 1);
  EXPECT_TRUE(built["skipped"].is_array());
  const Result back =
      run_plait({"data", "export", "--input", file("again"), "--output", file("back.txt")});
  EXPECT_EQ(back.status, 0) << back.err;
  EXPECT_EQ(read_file(file("back.txt")), read_file(file("text.txt")));
}

TEST_F(Outputs, DryRunWritesNothing) {
  const std::vector<std::string> args =
      folder_.train({"--layout", "dp2.tp2.pp2.sp.zero1", "--out", file("run"), "--trace",
                     file("t.json"), "--dry-run"});
  const std::vector<std::string> before = folder_.listing();
  std::vector<std::string> with_json = args;
  with_json.emplace_back("--json");
  const Json json = run_json(with_json);
  expect_keys(json, {"layout", "ranks", "threads_per_rank", "micro_batches", "memory",
                     "needed_bytes", "available_bytes", "checkpoints", "metrics", "trace"});
  EXPECT_EQ(json["layout"], "dp2.tp2.pp2.sp.zero1");
  EXPECT_EQ(json["ranks"], 8);
  ASSERT_EQ(json["memory"].size(), 2U);
  int64_t sum = 0;
  for (const Json& stage : json["memory"]) {
    for (const char* part :
         {"weights", "gradients", "optimizer", "activations", "comm", "workspace", "total"}) {
      EXPECT_TRUE(stage[part]["bytes"].is_number_integer()) << part;
      EXPECT_TRUE(stage[part]["source"].is_string()) << part;
    }
    sum += 4 * stage["total"]["bytes"].get<int64_t>();
  }
  EXPECT_EQ(json["needed_bytes"], sum);
  const Result text = run_plait(args);
  EXPECT_EQ(text.status, 0);
  for (const char* part : {"layout ", "memory per rank", "stage 1:", "F0.0", "checkpoints"}) {
    EXPECT_NE(text.out.find(part), std::string::npos) << part << "\n" << text.out;
  }
  EXPECT_EQ(folder_.listing(), before);
}

TEST_F(Outputs, Train) {
  const std::vector<std::string> args =
      folder_.train({"--layout", "dp2.tp2", "--steps", "4", "--save-every", "2", "--eval-every",
                     "2", "--out", file("run"), "--trace", file("deep/er/trace.json"), "--json"});
  const Json summary = run_json(args);
  expect_keys(summary,
              {"layout", "ranks", "threads_per_rank", "first_step", "last_step", "stopped",
               "first_loss", "last_loss", "tokens_per_s", "mfu", "gemm_peak_flops", "mean_step",
               "memory_peak_bytes", "checkpoint", "metrics", "trace", "val_loss"});
  EXPECT_EQ(summary["first_step"], 1);
  EXPECT_EQ(summary["last_step"], 4);
  EXPECT_EQ(summary["stopped"], false);
  EXPECT_GT(summary["mfu"].get<double>(), 0);
  expect_keys(summary["mean_step"],
              {"compute_s", "exposed_comm_s", "bubble_s", "control_s", "optimizer_s"});
  ASSERT_EQ(summary["memory_peak_bytes"].size(), 4U);
  expect_keys(summary["memory_peak_bytes"][0], {"weights", "gradients", "optimizer", "activations",
                                                "comm", "workspace", "total_peak"});

  std::ifstream metrics(summary["metrics"].get<std::string>());
  std::string line;
  int64_t step = 0;
  while (std::getline(metrics, line)) {
    const Json json = parse_json(line, "metrics");
    expect_keys(json, {"step", "loss", "grad_norm", "lr", "tokens", "time_s", "tokens_per_s", "mfu",
                       "compute_s", "exposed_comm_s", "bubble_s", "control_s", "optimizer_s"});
    EXPECT_EQ(json["step"], ++step);
    EXPECT_EQ(json.contains("val_loss"), step % 2 == 0);
    EXPECT_EQ(json.contains("val_perplexity"), step % 2 == 0);
    EXPECT_EQ(json["tokens"], 8 * 16);
  }
  EXPECT_EQ(step, 4);

  const Json trace = read_json(summary["trace"].get<std::string>());
  std::set<int64_t> ranks;
  for (const Json& event : trace["traceEvents"]) {
    ranks.insert(event["pid"].get<int64_t>());
    if (event["ph"] == "X") {
      EXPECT_GE(event["ts"].get<double>(), 0);
      EXPECT_GE(event["dur"].get<double>(), 0);
      EXPECT_TRUE(event["name"].is_string());
    } else {
      EXPECT_EQ(event["ph"], "M");
    }
  }
  EXPECT_EQ(ranks.size(), 4U);

  const Json list = run_json({"checkpoint", "list", file("run/checkpoints"), "--json"});
  ASSERT_EQ(list.size(), 2U);
  EXPECT_EQ(list[0]["step"], 4);
  EXPECT_EQ(list[0]["path"], summary["checkpoint"]);
  EXPECT_EQ(list[0]["problem"], "");
  EXPECT_EQ(run_plait({"checkpoint", "verify", summary["checkpoint"]}).status, 0);
}

TEST_F(Outputs, GenerateAndExport) {
  ASSERT_EQ(run_plait(folder_.train({"--steps", "2", "--out", file("run")})).status, 0);
  const Result text = run_plait({"generate", file("run"), "--prompt", "line ", "--tokens", "8",
                                 "--temperature", "0", "--threads", "1"});
  EXPECT_EQ(text.status, 0) << text.err;
  EXPECT_EQ(text.out.find("line "), 0U) << text.out;
  const Result exported =
      run_plait({"checkpoint", "export", file("run/checkpoints/step-00000002"), file("hf")});
  EXPECT_EQ(exported.status, 0) << exported.err;
  const Result same = run_plait({"generate", file("hf"), "--prompt", "line ", "--tokens", "8",
                                 "--temperature", "0", "--threads", "1"});
  EXPECT_EQ(same.out, text.out) << same.err;
  const Result none = run_plait({"checkpoint", "list", file("nothere")});
  EXPECT_EQ(none.status, 1);
  EXPECT_NE(none.err.find("no checkpoint"), std::string::npos) << none.err;
}

TEST_F(Outputs, TrainVerify) {
  const std::string golden = std::string(std::getenv("PLAIT_TEST_DATA")) + "/goldens/tiny-qwen2";
  const std::vector<std::string> args = {"train", "verify", golden,      "--layout",
                                         "tp2",   "--json", "--threads", "1"};
  const Json report = run_json(args);
  expect_keys(report, {"directory", "layout", "passed", "parts"});
  EXPECT_EQ(report["layout"], "tp2");
  EXPECT_EQ(report["passed"], true);
  EXPECT_GT(report["parts"].size(), 10U);
  expect_keys(report["parts"][0], {"name", "error", "limit", "passed"});

  // One wrong answer.
  std::filesystem::copy(golden, file("wrong"));
  std::string json = read_file(file("wrong/golden.json"));
  const size_t at = json.find("\"grad_norm\": ");
  ASSERT_NE(at, std::string::npos);
  json.insert(at + 13, "1");
  std::ofstream(file("wrong/golden.json")) << json;
  const Json failed = run_json({"train", "verify", file("wrong"), "--json", "--threads", "1"}, 1);
  EXPECT_EQ(failed["passed"], false);
}

}  // namespace
}  // namespace plait
