// Results of communication tests as text, as hccl_test's lines, and as JSON.
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "comm_test/verdict.h"

namespace plait {

// The head and the rows of plait's own table.
std::string sweep_head();
std::string sweep_row(const SweepRow& row);

// hccl_test's: its widths, microseconds, algorithm bandwidth in 1e9 bytes/s.
std::string hccl_test_head(const SweepOptions& options);
std::string hccl_test_row(const SweepRow& row);

// A matrix of bandwidths (hosts where there are several, else ranks), and of latencies.
std::string links_text(const LinkResult& result);

std::string findings_text(const std::vector<CommFinding>& findings);

Json sweep_json(const SweepResult& result, const std::vector<CommFinding>& findings);
Json links_json(const LinkResult& result, const std::vector<CommFinding>& findings);

// Self-contained pages.
std::string sweep_html(const SweepResult& result, const std::vector<CommFinding>& findings);
std::string links_html(const LinkResult& result, const std::vector<CommFinding>& findings);

// Rows of an earlier sweep_json. Errors: kCorruptData naming the file.
std::vector<Expectation> read_baseline(const std::string& path);

// Links that got slower than in an earlier links_json: below 70 % of its bandwidth, or more than
// twice its latency and 50 us. Errors: kCorruptData.
std::vector<CommFinding> judge_drift(const LinkResult& result, const Json& baseline,
                                     const std::string& origin);

}  // namespace plait
