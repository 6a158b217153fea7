// Measured memory of launched jobs against the prediction.
#pragma once

#include <string>
#include <vector>

#include "base/csv.h"
#include "plan/estimate.h"
#include "topology/cluster.h"

namespace plait {

// One configuration: its worst rank.
struct ScoredMemory {
  std::string name;
  int ranks = 0;
  double states_error = 0;  // predicted over measured, minus 1, of the worst rank
  double peak_error = 0;
  double states_bytes = 0, measured_states = 0;  // of the rank with the worst peak
  double peak_bytes = 0, measured_peak = 0;
  Fit fit = Fit::kFits;
  std::string states_note;  // why the states are not scored, or empty
  std::string peak_note;    // why the peak is not scored, or empty
};

struct MemoryReport {
  std::vector<ScoredMemory> configurations;
  std::vector<std::string> skipped;           // "name: reason"
  int states_scored = 0, states_close = 0;    // within 3 %
  int peaks_scored = 0, peaks_close = 0;      // within 8 %
  int fits = 0, tight = 0, does_not_fit = 0;  // of jobs that all ran
};

// `runs`: columns tag, config, devices, all_flags (a Megatron or MindSpeed command line). `memory`:
// tag, config, rank, allocated_MiB, max_allocated_MiB, as Megatron prints them after the first
// step. The same measurement under several tags counts once. Errors: kCorruptData naming file and
// line or a missing column.
MemoryReport score_memory(const CsvTable& runs, const CsvTable& memory, const Cluster& cluster);

std::string memory_report_text(const MemoryReport& report);

}  // namespace plait
