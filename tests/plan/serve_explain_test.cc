#include <gtest/gtest.h>

#include "base/error.h"
#include "base/file.h"
#include "plan/explain.h"
#include "plan/plan_jobs.h"
#include "plan/serve_estimate.h"
#include "spec/model_catalog.h"
#include "support/test_files.h"

namespace plait {
namespace {

ServeRequest qwen3_8b() {
  ServeRequest request;
  request.model_name = "Qwen3-8B";
  request.model = find_model("Qwen3-8B");
  request.cluster = load_cluster("910b3");
  request.prompt = 2048;
  request.output = 256;
  return request;
}

TEST(Serve, MemoryIsExact) {
  const ServeEstimate e = estimate_serving(qwen3_8b());
  EXPECT_EQ(e.kv_per_token, 147456);
  EXPECT_EQ(e.weights, 8190735360.0 * 2);
  EXPECT_EQ(e.max_tokens, static_cast<int64_t>(e.kv_capacity / 147456));
  // The shortcut ignores that 32 heads share 8 kv heads.
  EXPECT_EQ(e.kv_rule, 4 * e.kv_per_token);
}

TEST(Serve, KvHeadsAreReplicatedBeyondTheirNumber) {
  ServeRequest request = qwen3_8b();
  request.tp = 8;
  EXPECT_EQ(estimate_serving(request).kv_per_token_device, 147456 / 8);
  request.tp = 16;
  request.cluster = load_cluster("910b3x2");
  EXPECT_EQ(estimate_serving(request).kv_per_token_device, 147456 / 8);
}

TEST(Serve, SaturationEndsLatency) {
  ServeRequest request = qwen3_8b();
  request.rate = 0.1;
  const ServeEstimate idle = estimate_serving(request);
  EXPECT_GT(idle.ttft_s, idle.prefill_s);
  EXPECT_GE(idle.tpot_s, idle.decode_s);
  request.rate = 0.9 * idle.saturation_rate;
  const ServeEstimate close = estimate_serving(request);
  EXPECT_FALSE(close.saturated);
  EXPECT_EQ(close.ttft_s, 0);
  EXPECT_GT(close.tpot_s, idle.tpot_s);
  request.rate = 1.01 * idle.saturation_rate;
  const ServeEstimate over = estimate_serving(request);
  EXPECT_TRUE(over.saturated);
  EXPECT_EQ(over.ttft_s, 0);
  EXPECT_NE(serve_text(request, over).find("saturated at"), std::string::npos);
}

// Qwen2.5-7B on one 910B: 32 tokens/s, with tp 2 only 22 (lmdeploy 2534): the host bounds it.
TEST(Serve, HostBoundOn910B) {
  ServeRequest request = qwen3_8b();
  request.model = find_model("Qwen2.5-7B");
  EXPECT_NEAR(1 / estimate_serving(request).decode_s, 32, 5);
  request.tp = 2;
  EXPECT_NEAR(1 / estimate_serving(request).decode_s, 22, 4);
}

TEST(Serve, BadInput) {
  ServeRequest request = qwen3_8b();
  request.prompt = 0;
  EXPECT_THROW(estimate_serving(request), Error);
  request = qwen3_8b();
  request.tp = 3;
  EXPECT_THROW(estimate_serving(request), Error);
  request = qwen3_8b();
  request.model = find_model("DeepSeek-V3");
  EXPECT_THROW(estimate_serving(request), Error);
}

TrainJob measured_job() {
  TrainJob job = small_job();
  job.stack = Stack::kMindSpeed;
  job.layout.tp = 8;
  job.layout.sp = true;
  return job;
}

TEST(Explain, NamesTheTermThatDiffers) {
  const TrainJob job = measured_job();
  const Estimate estimate = estimate_job(job, load_cluster("910b"));
  const StepTime& t = estimate.time;
  Measured measured;
  measured.step = 2 * t.step.best;
  measured.compute = t.compute + t.optimizer;
  measured.communication = t.tp_exposed;
  measured.free = t.step.best;
  const Explanation explanation = explain_measured(measured, job, estimate);
  EXPECT_NE(explanation.verdict.find("idle"), std::string::npos) << explanation.verdict;
  measured.step = t.step.best;
  measured.free.reset();
  EXPECT_NE(explain_measured(measured, job, estimate).verdict.find("inside the interval"),
            std::string::npos);
}

TEST(Explain, ReadsAStepTrace) {
  const TestFolder folder;
  const std::string path = folder.file("step_trace_time.csv");
  write_file_atomic(
      path,
      "Device_id,Step,Computing,Communication(Not Overlapped),Overlapped,Communication,Free,Stage,"
      "Bubble,Communication(Not Overlapped and Exclude Receive),Preparing\n"
      "0,1,900000,100000,50000,150000,200000,1200000,0,60000,10\n"
      "0,2,800000,100000,50000,150000,100000,1000000,0,60000,10\n"
      "0,3,700000,100000,50000,150000,100000,900000,0,60000,10\n");
  const Measured measured = read_measured(path);
  EXPECT_DOUBLE_EQ(*measured.step, 1.0);
  EXPECT_DOUBLE_EQ(*measured.compute, 0.8);
  EXPECT_DOUBLE_EQ(*measured.receive_wait, 0.04);
}

TEST(Explain, ReadsSettingsAndRefusesOthers) {
  const TestFolder folder;
  const std::string path = folder.file("measured.txt");
  write_file_atomic(path, "# run 7\nstep_s = 1.5\nmemory_gib = 20, 21.5\n");
  const Measured measured = read_measured(path);
  EXPECT_DOUBLE_EQ(*measured.step, 1.5);
  ASSERT_EQ(measured.memory.size(), size_t{2});
  write_file_atomic(path, "step_s = 1.5\nstep = 3\n");
  try {
    read_measured(path);
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find(":2: 'step'"), std::string::npos) << error.what();
  }
  write_file_atomic(path, "step_s = -1\n");
  EXPECT_THROW(read_measured(path), Error);
}

TEST(Explain, MemoryOfTheFirstStepIsRecognised) {
  TrainJob job = measured_job();
  job.layout.tp = 1;
  job.layout.sp = false;
  job.layout.dp = 8;
  const Estimate estimate = estimate_job(job, load_cluster("910b"));
  Measured measured;
  measured.memory.assign(8, estimate.stages[0].first_step_peak);
  const Explanation explanation = explain_measured(measured, job, estimate);
  ASSERT_EQ(explanation.differences.size(), size_t{1});
  EXPECT_NE(explanation.differences[0].meaning.find("first step"), std::string::npos);
}

}  // namespace
}  // namespace plait
