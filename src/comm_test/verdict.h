// What a test says: which link, host or rank is the odd one, and against what.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "comm_test/links.h"
#include "comm_test/sweep.h"
#include "topology/cluster.h"

namespace plait {

// One direction between two hosts, over all pairs of their ranks.
struct HostLink {
  std::string source, destination;
  double bandwidth = 0;  // median of the pairs, bytes/s
  double latency_s = 0;
  int pings = 0, lost = 0;
};

enum class FindingKind : uint8_t {
  kStalledHost,  // its ranks do not run part of the time
  kBadHost,      // all of its links are slow or lossy
  kSlowLink,
  kLossyLink,
  kAsymmetricLink,
  kWrongData,
  kLateRank,
  kBelowExpectation,
};
const char* finding_name(FindingKind kind);  // "stalled_host", ...

struct CommFinding {
  FindingKind kind = FindingKind::kSlowLink;
  std::string guilty;    // "h2", "h2-h3", "rank 5"
  std::string evidence;  // with figures
  std::string action;
};

// Several hosts: links between hosts. One host: links between its ranks.
std::vector<HostLink> host_links(const LinkResult& result);

// Worst first; empty: nothing stands out.
std::vector<CommFinding> judge_links(const LinkResult& result);

// A figure that a sweep should reach.
struct Expectation {
  TestOp op = TestOp::kAllReduce;
  int64_t bytes = 0;
  double busbw = 0;  // bytes/s
};
// Closed forms on the cluster's links (topology/collective_model.h). Broadcast has none.
std::vector<Expectation> expect_sweep(const SweepResult& result, const Cluster& cluster);

// `least`: share of the expectation that passes.
std::vector<CommFinding> judge_sweep(const SweepResult& result,
                                     const std::vector<Expectation>& expected,
                                     const std::string& source, double least);

// What HCCL's documented selection rules would change on Ascend; empty where nothing does. Only
// values that HCCL accepts.
std::vector<std::string> hccl_advice(const SweepResult& result, const Cluster& cluster);

}  // namespace plait
