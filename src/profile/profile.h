// What profilers recorded of a job, summed up per rank: where a step's time goes, operators,
// collectives, links.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace plait {

// Times of one step, microseconds, as torch_npu's step_trace_time.csv splits them. Computing,
// exposed communication and free time add up to the step.
struct StepSplit {
  double computing = 0;
  double exposed = 0;     // communication that nothing hides
  double overlapped = 0;  // communication under computing
  double free = 0;        // the device has nothing to do
  double stage = 0;       // the step
  double bubble = 0;      // waiting for other pipeline stages: part of exposed
  double preparing = 0;   // before the first operator: data, host
};

// One kind of operator ("MatMulV3").
struct OperatorTotal {
  std::string core;  // "AI_CORE", "AI_VECTOR_CORE", "AI_CPU", ...
  int64_t count = 0;
  double total_us = 0;
  double max_us = 0;
};

// One collective of one communicator ("hcom_allReduce_" of group "1234").
struct CollectiveTotal {
  int64_t count = 0;
  double elapse_ms = 0;
  double transit_ms = 0;
  double wait_ms = 0;  // for other ranks to arrive
  double size_mb = 0;
};

struct LinkTotal {
  std::string transport;  // "HCCS", "RDMA", "PCIE"
  double size_mb = 0;
  double time_ms = 0;
  double gb_per_s() const { return time_ms > 0 ? size_mb / time_ms : 0; }
};

struct RankProfile {
  int rank = 0;
  std::string source;  // its folder or file
  int64_t steps = 0;   // that `split` is the mean of
  StepSplit split;
  double slowest_step_us = 0;
  std::map<std::string, OperatorTotal> operators;                              // by type
  std::map<std::pair<std::string, std::string>, CollectiveTotal> collectives;  // by kind, group
  std::map<std::pair<int, int>, LinkTotal> links;  // by source and destination rank
};

struct Profile {
  std::vector<RankProfile> ranks;  // ascending
  // What could not be used: missing columns, truncated files, steps left out.
  std::vector<std::string> notes;
};

// Reads files and folders (of one rank, or of many): torch_npu and msprof output
// (step_trace_time.csv, kernel_details.csv, op_summary, op_statistic, communication.json,
// communication_matrix.json, trace_view.json, SQLite databases) and traces of plait train. Large
// files stream: memory grows with the number of kinds of operators, not with the size. Errors:
// kNotFound for a path, kInvalidArgument if nothing in it is a profile. What is broken in a file
// becomes a note.
Profile read_profile(const std::vector<std::string>& paths);

}  // namespace plait
