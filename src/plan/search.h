// The best layouts of a model on a cluster: every combination is looked at; memory and a proven
// lower bound of the step time prune; what is left is simulated.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "plan/estimate.h"

namespace plait {

enum class Goal : uint8_t { kThroughput, kMemory };

// Degrees that are given, 0: free.
struct FixedDegrees {
  int tp = 0, pp = 0, vpp = 0, cp = 0, ep = 0, dp = 0;
  int64_t micro_batch = 0;
  int zero = -1;
  std::optional<bool> sp;
  std::optional<Recompute> recompute;
};

struct SearchRequest {
  TrainJob
      job;  // model, stack, dtype, overlap flags, global batch and sequence; its layout is free
  Cluster cluster;
  int devices = 0;
  Goal goal = Goal::kThroughput;
  FixedDegrees fixed;
  int max_tp = 0;  // 0: the devices of a server
  int top = 10;
  int threads = 0;  // 0: all cores
  // Points of SearchResult::scatter beside the frontier; 0: none.
  int scatter = 0;
  bool prune = true;  // false simulates every layout that fits, for tests
};

struct SearchCounts {
  int64_t enumerated = 0;
  int64_t invalid = 0;        // break a rule
  int64_t pruned_memory = 0;  // do not fit
  int64_t pruned_bound = 0;   // cannot enter the top
  int64_t simulated = 0;
  double seconds = 0;
  double enumerate_seconds = 0;  // of them before the first simulation
};

struct Candidate {
  TrainJob job;
  Estimate estimate;
};

// How a neighbour of the best layout, one step away, compares.
struct Neighbour {
  std::string change;  // "tp4 (was tp8)"
  std::string reason;  // "14 % slower: all-reduce exposed", "stage 0 short by 6.1 GiB"
  Candidate candidate;
};

// One of the layouts that fit, for a plot of memory against time.
struct ScatterPoint {
  double peak_bytes = 0;  // of the fullest stage
  double seconds = 0;     // of a step; of layouts that are not simulated the lower bound
  bool simulated = false;
  bool frontier = false;  // nothing is better in both
  std::string layout;
};

struct SearchResult {
  std::vector<Candidate> best;        // ascending step time (peak memory under Goal::kMemory)
  std::vector<Neighbour> neighbours;  // of best.front()
  SearchCounts counts;
  std::vector<ScatterPoint> scatter;  // ascending peak
  // If nothing fits: the layout whose worst stage misses the least, and how much it is short.
  std::optional<Candidate> nearest;
};

// Deterministic: the same request gives the same result with any number of threads. Errors:
// kInvalidArgument if fixed degrees contradict each other or the devices.
SearchResult search_layouts(const SearchRequest& request);

// "dp8.tp8.pp2.zero1 mb1 recompute full(3)": everything that the search varies.
std::string describe_layout(const TrainJob& job);
// Layers of each stage, equal neighbours together: "11,12x14,9".
std::string stage_layers_text(const std::vector<int64_t>& layers);

}  // namespace plait
