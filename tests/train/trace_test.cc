// What a trace shows: gradient reductions inside backward, unless they are told to wait.
#include <gtest/gtest.h>

#include <algorithm>

#include "base/json_full.h"
#include "train/small_run.h"
#include "train/step_log.h"

namespace plait {
namespace {

// Machines that run much else start a transfer late now and then, so not every step is judged.
constexpr int kSteps = 6;

// Large enough that backward takes longer than waking a thread.
void enlarge(EngineConfig& config) {
  config.model.hidden_size = 128;
  config.model.ffn_hidden_size = 256;
  config.model.num_layers = 6;
  config.batch.micro_batch_size = 4;
}

// Spans of every rank, one list a step.
using StepSpans = std::vector<std::vector<TraceSpan>>;
std::vector<StepSpans> trace(SmallRun run) {
  std::vector<StepSpans> ranks(static_cast<size_t>(parse_layout(run.layout).world_size()));
  run.steps = kSteps;
  run.adjust = enlarge;
  run.after_step = [&](Engine& engine, int step) {
    StepRecorder& recorder = engine.context().recorder();
    if (step == 0) {
      recorder.set_tracing(true);
    } else {
      ranks[static_cast<size_t>(engine.context().rank())].push_back(recorder.take_spans());
    }
  };
  run_small(run);
  return ranks;
}

bool is_backward(const TraceSpan& span) {
  return span.lane == TraceLane::kCompute && span.name.find("backward") != std::string::npos;
}

double end_of_backward(const std::vector<TraceSpan>& spans) {
  double end = 0;
  for (const TraceSpan& span : spans) {
    end = is_backward(span) ? std::max(end, span.end_s) : end;
  }
  return end;
}

// Reductions over dp, as transfers of their own or as waits of the host thread.
std::vector<TraceSpan> reductions(const std::vector<TraceSpan>& spans, const char* operation) {
  std::vector<TraceSpan> found;
  for (const TraceSpan& span : spans) {
    if (span.name == std::string(operation) + " dp") {
      found.push_back(span);
    }
  }
  return found;
}

struct OverlapCase {
  std::string layout;
  const char* operation;
};
class Overlap : public testing::TestWithParam<OverlapCase> {};

TEST_P(Overlap, ReductionsStartInsideBackward) {
  const SmallRun run{.layout = GetParam().layout, .tied = false, .bucket_count = 20000};
  for (const StepSpans& steps : trace(run)) {
    ASSERT_EQ(steps.size(), size_t{kSteps});
    int64_t inside = 0;
    for (const std::vector<TraceSpan>& spans : steps) {
      const double end = end_of_backward(spans);
      ASSERT_GT(end, 0);
      const std::vector<TraceSpan> found = reductions(spans, GetParam().operation);
      EXPECT_GT(found.size(), 4U);
      for (const TraceSpan& span : found) {
        EXPECT_EQ(span.lane, TraceLane::kTransfer);
        EXPECT_LE(span.begin_s, span.end_s);
        inside += span.begin_s < end ? 1 : 0;
      }
    }
    EXPECT_GT(inside, 0);
  }
}

TEST_P(Overlap, SwitchedOffTheyFollowBackward) {
  const SmallRun run{
      .layout = GetParam().layout, .tied = false, .bucket_count = 20000, .overlap = false};
  for (const StepSpans& steps : trace(run)) {
    for (const std::vector<TraceSpan>& spans : steps) {
      const double end = end_of_backward(spans);
      ASSERT_GT(end, 0);
      const std::vector<TraceSpan> found = reductions(spans, GetParam().operation);
      EXPECT_GT(found.size(), 4U);
      for (const TraceSpan& span : found) {
        EXPECT_EQ(span.lane, TraceLane::kWait);
        EXPECT_GE(span.begin_s, end);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Layouts, Overlap,
                         testing::Values(OverlapCase{"dp2", "all_reduce"},
                                         OverlapCase{"dp2.zero1", "reduce_scatter"},
                                         OverlapCase{"dp2.pp2.zero1", "reduce_scatter"}),
                         [](const testing::TestParamInfo<OverlapCase>& param) {
                           return small_run_name({.layout = param.param.layout});
                         });

TEST(ChromeTrace, IsWellFormed) {
  const std::vector<StepSpans> ranks = trace({.layout = "dp2.pp2.zero1"});
  std::vector<std::vector<TraceSpan>> spans;
  size_t count = 0;
  for (const StepSpans& steps : ranks) {
    spans.push_back(decode_spans(encode_spans(steps.front())));
    count += spans.back().size();
    ASSERT_EQ(spans.back().size(), steps.front().size());
    EXPECT_EQ(spans.back().front().name, steps.front().front().name);
    EXPECT_EQ(spans.back().front().begin_s, steps.front().front().begin_s);
  }
  const Json json = parse_json(chrome_trace(spans), "trace");
  EXPECT_EQ(json["displayTimeUnit"], "ms");
  size_t complete = 0;
  double first_us = 1e30;
  for (const Json& event : json["traceEvents"]) {
    const auto rank = event["pid"].get<int>();
    EXPECT_TRUE(rank >= 0 && rank < 4);
    if (event["ph"] == "M") {
      EXPECT_TRUE(event["args"]["name"].is_string());
      continue;
    }
    ASSERT_EQ(event["ph"], "X");
    ++complete;
    first_us = std::min(first_us, event["ts"].get<double>());
    EXPECT_GE(event["dur"].get<double>(), 0);
    EXPECT_FALSE(event["name"].get<std::string>().empty());
    const auto lane = event["tid"].get<int>();
    EXPECT_EQ(event["cat"], trace_lane_name(static_cast<TraceLane>(lane)));
  }
  EXPECT_EQ(complete, count);
  EXPECT_EQ(first_us, 0);
}

}  // namespace
}  // namespace plait
