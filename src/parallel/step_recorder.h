// Where one rank's time goes: seconds spent waiting for others, by kind, and spans for a trace.
#pragma once

#include <array>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

namespace plait {

// What a blocked host thread waits for.
enum class Wait : uint8_t {
  kTensor,    // tp collectives
  kData,      // gradient reductions and weight gathers that were not hidden
  kPipeline,  // other stages: the bubble, as this rank sees it
  kControl,   // small exchanges between all ranks; includes waiting for the slowest
};
constexpr int kNumWaits = 4;
const char* wait_name(Wait wait);  // "tensor", "data", "pipeline", "control"

// Rows of a rank in the trace.
enum class TraceLane : uint8_t { kCompute, kTransfer, kWait };
const char* trace_lane_name(TraceLane lane);

struct TraceSpan {
  std::string name;
  TraceLane lane = TraceLane::kCompute;
  double begin_s = 0;  // of base/clock.h
  double end_s = 0;
};

// Used by the rank's host thread; add_span by any of its threads.
class StepRecorder {
 public:
  using Waits = std::array<double, kNumWaits>;

  void begin_step() { waits_ = {}; }
  void add_wait(Wait wait, double seconds) { waits_[static_cast<size_t>(wait)] += seconds; }
  const Waits& waits() const { return waits_; }

  // Spans are kept only while tracing, at most 2^20 of them.
  void set_tracing(bool on) { tracing_ = on; }
  bool tracing() const { return tracing_; }
  void add_span(TraceSpan span);
  std::vector<TraceSpan> take_spans();

 private:
  Waits waits_{};
  bool tracing_ = false;
  std::mutex mutex_;
  std::vector<TraceSpan> spans_;
};

}  // namespace plait
