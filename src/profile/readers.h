// The files that profilers write, one function a format. Each adds to `rank`; what is missing or
// broken goes to `notes`, naming the file.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "profile/profile.h"

namespace plait {

using Notes = std::vector<std::string>;

// step_trace_time.csv. The first step is left out where there are several: it warms up.
void read_step_trace(const std::string& path, RankProfile& rank, Notes& notes);

// cluster_step_trace_time.csv: the steps of all ranks, by rank.
void read_cluster_steps(const std::string& path, std::map<int, RankProfile>& ranks, Notes& notes);

// kernel_details.csv or op_summary: one row an operator that ran.
void read_kernels(const std::string& path, RankProfile& rank, Notes& notes);

// op_statistic: one row a kind of operator.
void read_operator_statistic(const std::string& path, RankProfile& rank, Notes& notes);

// communication.json: collectives, and bandwidth by transport.
void read_communication(const std::string& path, RankProfile& rank, Notes& notes);

// communication_matrix.json: links.
void read_communication_matrix(const std::string& path, RankProfile& rank, Notes& notes);

// An SQLite database of torch_npu or msprof: what `rank` has not got from other files yet (split,
// operators, collectives, links), since all exports say the same.
void read_database(const std::string& path, RankProfile& rank, Notes& notes);

// A Chrome trace: torch_npu's trace_view.json (its "Overlap Analysis") for `rank`, or the trace of
// `plait train` with a process a rank. Returns the ranks it found; empty: nothing usable.
std::vector<RankProfile> read_trace(const std::string& path, int rank, Notes& notes);

}  // namespace plait
