// Measured runs from a table: rows become jobs that the planner can be compared with.
//
// Columns (docs/planning.md lists them with the names under which published tables have them):
// devices, global_batch, micro_batch, layers, hidden, ffn, heads, kv_heads, vocab, seq, tp, dp, pp,
// cp, ep, vpp_layers, zero, sp, recompute, recompute_layers, flash, dtype, gated, tied, ... and one
// of step_s, step_ms, tokens_per_s_per_device.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/csv.h"
#include "plan/job.h"
#include "topology/cluster.h"

namespace plait {

struct MeasuredRun {
  int line = 0;          // in the file
  std::string model;     // as the table names it, or its sizes
  std::string question;  // same model, devices, batch and sequence: layouts that compete
  int devices = 0;
  TrainJob job;
  double step_s = 0;
  std::string note;  // the table's own remark
};

struct ScoreTable {
  std::string origin;
  std::vector<MeasuredRun> runs;
  // Keys that the table lacks and the value that every row gets, "recompute=full".
  std::vector<std::string> assumptions;
  bool recompute_unknown = false;  // no column and no assumption: assume_recompute may decide
  // Rows that cannot be scored: "line 12: tokens_per_s_per_npu is '--'".
  std::vector<std::string> skipped;
  // Rows that contradict themselves or physics, not scored: "line 43: ...".
  std::vector<std::string> impossible;
};

struct ScoreTableOptions {
  Stack stack = Stack::kMegatron;
  std::map<std::string, std::string> assume;  // canonical column -> value for rows without one
};

// Dropout defaults to what the stack's scripts have: on for Megatron, off for others.
// Errors: kCorruptData naming file, line and column for a value that does not parse or for a table
// without a measured column; kInvalidArgument for an unknown key in `assume`.
ScoreTable read_score_table(const CsvTable& table, const ScoreTableOptions& options);

// Where the table does not say how runs recompute: all of them ran, so if some would not fit
// without recomputation, full recomputation is assumed for every row, and the assumption is noted.
void assume_recompute(ScoreTable& table, const Cluster& cluster);

}  // namespace plait
