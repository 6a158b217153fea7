// Why a measured step differs from the prediction: which terms are larger than they should be.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "plan/estimate.h"

namespace plait {

// What was measured; absent parts are not compared. Seconds and bytes.
struct Measured {
  std::string origin;
  std::optional<double> step;
  std::optional<double> compute;        // device busy with kernels
  std::optional<double> communication;  // not hidden behind compute, waiting for peers included
  std::optional<double> receive_wait;  // of communication: waiting to receive from a pipeline stage
  std::optional<double> free;          // device idle: launches, data, host
  std::vector<double> memory;          // peak of each rank, or of each stage
};

// Files: torch_npu's step_trace_time.csv or cluster_step_trace_time.csv (microseconds; the median
// over steps of the slowest rank), or lines "key = value" with step_s, compute_s, communication_s,
// free_s, memory_gib (comma list). Errors: kNotFound; kCorruptData naming file and line.
Measured read_measured(const std::string& path);

struct Difference {
  std::string term;
  double predicted = 0;
  double measured = 0;
  bool seconds = true;   // else bytes
  bool differs = false;  // outside the prediction's interval
  std::string meaning;   // what a deviation of this term usually comes from
};

struct Explanation {
  std::vector<Difference> differences;  // largest deviation first
  std::string verdict;                  // one sentence
};

Explanation explain_measured(const Measured& measured, const TrainJob& job,
                             const Estimate& estimate);

std::string explanation_text(const Explanation& explanation);

}  // namespace plait
