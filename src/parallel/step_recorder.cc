#include "parallel/step_recorder.h"

#include <utility>

namespace plait {

const char* wait_name(Wait wait) {
  static constexpr std::array kNames = {"tensor", "data", "pipeline", "control"};
  return kNames[static_cast<size_t>(wait)];
}

const char* trace_lane_name(TraceLane lane) {
  static constexpr std::array kNames = {"compute", "transfer", "wait"};
  return kNames[static_cast<size_t>(lane)];
}

void StepRecorder::add_span(TraceSpan span) {
  constexpr size_t kSpansMax = size_t{1} << 20;
  const std::scoped_lock lock(mutex_);
  if (spans_.size() < kSpansMax) {
    spans_.push_back(std::move(span));
  }
}

std::vector<TraceSpan> StepRecorder::take_spans() {
  const std::scoped_lock lock(mutex_);
  return std::exchange(spans_, {});
}

}  // namespace plait
