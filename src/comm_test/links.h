// Every pair of ranks in both directions, scheduled so that no two pairs share a rank, nor a host's
// network.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "comm/process_group.h"

namespace plait {

struct LinkOptions {
  int64_t bytes = int64_t{1} << 20;  // of a large message
  int repeats = 3;                   // large messages a direction
  int pings = 40;                    // small messages a direction
  double limit_s = 10;               // for one message: then the link counts as down
};

// One direction of a pair of ranks.
struct LinkSample {
  int source = 0, destination = 0;
  double bandwidth = 0;  // bytes/s of the best large message
  double slowest = 0;    // bytes/s of the worst one
  double latency_s = 0;  // half of a round trip of small messages, median
  double worst_s = 0;    // longest round trip
  int pings = 0;
  int lost = 0;  // round trips so long that something was sent again (150 ms and 20 x the median)
};

struct LinkResult {
  std::vector<std::string> hosts;  // by rank
  std::vector<double> stalled_share;
  std::vector<LinkSample> samples;  // by source, then destination
};

// Pairs of each round: every rank at most once, and every host in at most one pair that leaves it.
std::vector<std::vector<std::pair<int, int>>> link_rounds(const std::vector<std::string>& hosts);

// Collective over all ranks of `group`. progress(done, rounds) on rank 0. The result is complete on
// rank 0. Errors: kComm, naming both ranks and hosts, if a message does not arrive within limit_s:
// nothing can be measured on after that.
LinkResult measure_links(World& world, ProcessGroup& group, const LinkOptions& options,
                         const std::function<void(int, int)>& progress);

}  // namespace plait
