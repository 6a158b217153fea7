#include "serve/step_pace.h"

#include <algorithm>

namespace plait {
namespace {

// Few rows are bound by reading the weights: what they take says nothing about a row.
constexpr int64_t kTellingRows = 16;
constexpr double kNewWeight = 0.3;
constexpr double kLongestStepS = 2;
// Decoding steps that a step with rows of a prompt may always last: on a slow machine prompts would
// not get ahead otherwise.
constexpr double kLeastGapSteps = 4;

void smooth(double& mean, double value) {
  mean = mean > 0 ? (1 - kNewWeight) * mean + kNewWeight * value : value;
}

}  // namespace

void StepPace::record(const Step& step) {
  if (step.prompt_rows == 0) {
    smooth(decode_s_, step.seconds);
  } else if (step.prompt_rows >= kTellingRows) {
    const double beside_s = step.decode_rows > 0 ? std::min(decode_s_, step.seconds / 2) : 0;
    smooth(prompt_row_s_, (step.seconds - beside_s) / static_cast<double>(step.prompt_rows));
  }
}

int64_t StepPace::rows_in(double seconds) const {
  if (prompt_row_s_ <= 0) {
    return options_.most_rows;
  }
  const double rows = std::min(seconds / prompt_row_s_, static_cast<double>(options_.most_rows));
  return std::min(options_.most_rows, std::max(kLeastRows, static_cast<int64_t>(rows)));
}

int64_t StepPace::prompt_rows_beside() const {
  return rows_in(std::max(options_.max_gap_s, kLeastGapSteps * decode_s_) - decode_s_);
}

int64_t StepPace::prompt_rows_alone() const {
  return rows_in(kLongestStepS);
}

}  // namespace plait
