// Device memory of every pipeline stage before anything is allocated: the same parameter table,
// activation table and schedule that the trainer runs from, walked in the order in which it
// allocates and frees. Needs no device.
//
// Bytes are counted as requested, as MemoryLedger does; an allocator may round them up. Not
// counted: what the process holds outside the device (program, libraries, data files, staging of
// kernels on the host).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "spec/model_config.h"
#include "spec/validate.h"
#include "topology/layout.h"

namespace plait {

struct MemoryRequest {
  ModelConfig model;
  Layout layout;
  BatchConfig batch;
  DType compute_dtype = DType::kF32;
  int64_t vocab_multiple = 1;      // see TableOptions
  int64_t bucket_count = 4 << 20;  // see FlatLayoutOptions
};

struct MemoryNumber {
  int64_t bytes = 0;
  std::string source;  // where the number comes from, for the user
};

// Peaks of the ranks of one pipeline stage; all of them are alike.
struct StageMemory {
  int stage = 0;
  int64_t elements = 0;   // of the flat parameter storage, padding and tied copies included
  int max_in_flight = 0;  // micro-batches times chunks whose backward has not run
  MemoryNumber weights, gradients, optimizer, activations, comm, workspace;
  // The part of `activations` that depends on timing: messages to a stage that may not have taken
  // them yet. The ledger's peak lies between activations - late_sends and activations. That is up
  // to 14 % of the activations of a tiny model under full recomputation, where stages keep little
  // but the messages, and far less where layers keep more than their input.
  int64_t late_send_bytes = 0;
  // Of all categories at one time: at most the sum of their peaks.
  MemoryNumber total;
};

struct MemoryEstimate {
  std::vector<StageMemory> stages;
  // The stage with the largest total.
  const StageMemory& largest() const;
};

// Requires: a run that check_run accepts.
MemoryEstimate estimate_memory(const MemoryRequest& request);

}  // namespace plait
