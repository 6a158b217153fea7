// Whether a layout fits a model, a batch and a world: one place for every command, before anything
// is allocated.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "spec/model_config.h"
#include "topology/layout.h"

namespace plait {

// Sizes of one optimizer step.
struct BatchConfig {
  int64_t global_batch_size = 1;  // rows a step, over all replicas
  int64_t micro_batch_size = 1;   // rows a micro-batch
  int64_t seq_len = 0;

  // Micro-batches of one replica: the last ones may be padded with rows that count for nothing.
  int64_t num_microbatches(const Layout& layout) const;
};

// Most ranks that a layout may have.
constexpr int64_t kMaxRanks = 1000000;

// One broken rule.
struct Problem {
  std::string key;    // "tp", "global_batch_size"
  std::string value;  // as given
  std::string rule;   // what must hold
  // What to try: alternatives, separated by ", or ". Each holds settings as key=value that, made
  // together, satisfy the rule (others may break: the layout is checked as a whole again).
  std::string suggestion;
};

struct RunShape {
  ModelConfig model;
  Layout layout;
  BatchConfig batch;
  int world_size = 0;          // ranks that exist; 0: unknown, not checked
  int64_t vocab_multiple = 1;  // see TableOptions
  // The layout is for another program (plan/job_problems.h): what plait does not implement is no
  // problem, and what programs judge differently (kv heads fewer than tp, sequence parallelism, the
  // MLP of models with experts) is left to the caller.
  bool for_another_program = false;
};

// All broken rules, the most basic first; empty if the run can start. Requires: a model that
// check_model_config accepts.
std::vector<Problem> find_problems(const RunShape& run);

// Throws kInvalidArgument (kNotImplemented if only valid but unsupported values are in the way)
// with every problem, one a line. The same requirement.
void check_run(const RunShape& run);

}  // namespace plait
