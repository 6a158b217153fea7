// Two steps of an engine, and what the device's ledger says of them beside the estimate that is
// made before anything starts: for the memory test and for bench/memory_table.
#pragma once

#include <string>
#include <vector>

#include "device/memory_ledger.h"
#include "spec/memory_estimate.h"
#include "train/engine.h"

namespace plait {

struct MemoryCase {
  std::string layout = "dp1";
  Recompute recompute = Recompute::kNone;
  ScheduleKind schedule = ScheduleKind::kOneFOneB;
  DType dtype = DType::kF32;
  bool tied = false;
  std::vector<int64_t> stage_layers = {};
  int64_t bucket_count = 4 << 20;
};

// "dp2.zero1 1f1b none f32 untied".
std::string describe(const MemoryCase& c);

// The run of a case: 4 micro-batches of 2 rows of `seq_len` tokens for each replica. Checked.
EngineConfig memory_run_config(const MemoryCase& c, const ModelConfig& model, int64_t seq_len);

MemoryEstimate estimate_run(const EngineConfig& config);

// Ledger of every rank after two steps.
std::vector<MemoryLedger::Totals> measure_memory(const EngineConfig& config);

int64_t peak(const MemoryLedger::Totals& totals, MemoryCategory category);

// Weights, gradients and optimizer states in bytes a parameter that the rank stores: f32 16, or 8 +
// 8/D under ZeRO-1; 16 bits 18, or 6 + 12/D.
double closed_form_state_bytes(const EngineConfig& config);
// The same of a rank's ledger, without the rotary tables.
double measured_state_bytes(const EngineConfig& config, const MemoryLedger::Totals& totals,
                            int pipeline_stage);

}  // namespace plait
