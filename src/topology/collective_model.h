// Time of collectives on a cluster: alpha-beta models on two levels.
#pragma once

#include <cstdint>

#include "topology/cluster.h"

namespace plait {

enum class CollectiveKind : uint8_t {
  kAllReduce,
  kAllGather,
  kReduceScatter,
  kAllToAll,
  kSendRecv
};

// Where the ranks of a group are: `size` ranks that are `stride` ranks apart.
struct GroupPlace {
  int size = 1;
  int stride = 1;
  // Two levels: `block` members `stride` apart, the blocks `block_stride` apart. 0: one level.
  int block = 0;
  int block_stride = 0;

  // Members that share a server, at least 1.
  int inside(int devices_per_server) const;
};

// Seconds of one collective. Inside a server: ring or mesh over the links of the group. Across
// servers: reduce_scatter inside, the operation between servers on each rank's part, all_gather
// inside (HCCL's hierarchical algorithms; ascend.md 2.3). Formulas: ring all_reduce
// 2 (g - 1) alpha + 2 (g - 1) / g n / bandwidth (Thakur et al. 2005); on a full mesh the same
// volume in two steps at (g - 1) / (N - 1) of the bandwidth.
double collective_seconds(const Cluster& cluster, const GroupPlace& place, CollectiveKind kind,
                          double bytes);

// One message between neighbours of a group.
double send_seconds(const Cluster& cluster, const GroupPlace& place, double bytes);

// Bytes that a rank sends for one collective.
double bytes_sent(CollectiveKind kind, int group, double bytes);

}  // namespace plait
