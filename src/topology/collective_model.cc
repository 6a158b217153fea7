#include "topology/collective_model.h"

#include <algorithm>
#include <cmath>

namespace plait {
namespace {

// Volume on a link and number of steps of one operation of g ranks on n bytes.
struct Shape {
  double volume = 0;
  double steps = 0;
};

Shape operation_shape(CollectiveKind kind, double g, double n, bool one_hop) {
  const double part = (g - 1) / g * n;
  const double steps = one_hop ? 1 : g - 1;
  switch (kind) {
    case CollectiveKind::kAllReduce:
      return {2 * part, 2 * steps};
    case CollectiveKind::kAllGather:
    case CollectiveKind::kReduceScatter:
    case CollectiveKind::kAllToAll:
      return {part, steps};
    case CollectiveKind::kSendRecv:
      return {n, 1};
  }
  return {};
}

double link_seconds(const Link& link, const Shape& shape, double share) {
  const double efficiency =
      link.efficiency.value * shape.volume / (shape.volume + link.half_bytes.value);
  const double transfer =
      shape.volume > 0 ? shape.volume / (link.bandwidth.value * share * efficiency) : 0;
  return shape.steps * link.latency_s.value + transfer;
}

double intra_seconds(const Cluster& cluster, int group, CollectiveKind kind, double bytes) {
  if (group <= 1 && kind != CollectiveKind::kSendRecv) {
    return 0;
  }
  const int peers = std::max(1, cluster.devices_per_server - 1);
  double share = 1;
  if (cluster.intra.full_mesh) {
    // A pair uses one link of the mesh.
    share =
        kind == CollectiveKind::kSendRecv ? 1.0 / peers : static_cast<double>(group - 1) / peers;
  }
  return link_seconds(cluster.intra, operation_shape(kind, group, bytes, cluster.intra.full_mesh),
                      share);
}

double inter_seconds(const Cluster& cluster, int servers, CollectiveKind kind, double bytes) {
  // Trees and halving-doubling keep the number of steps logarithmic (NCCL's tree, HCCL's NHR).
  Shape shape = operation_shape(kind, servers, bytes, false);
  if (kind != CollectiveKind::kSendRecv && kind != CollectiveKind::kAllToAll) {
    shape.steps = (kind == CollectiveKind::kAllReduce ? 2 : 1) * std::ceil(std::log2(servers));
  }
  const double congestion =
      servers > 2 && kind != CollectiveKind::kSendRecv ? cluster.congestion.value : 1.0;
  return link_seconds(cluster.inter, shape, congestion);
}

}  // namespace

int GroupPlace::inside(int devices_per_server) const {
  const auto near = [&](int step, int most) {
    return std::clamp(devices_per_server / std::max(1, step), 1, std::max(1, most));
  };
  return block > 0 ? near(stride, block) * near(block_stride, size / block) : near(stride, size);
}

double collective_seconds(const Cluster& cluster, const GroupPlace& place, CollectiveKind kind,
                          double bytes) {
  if (place.size <= 1 || bytes <= 0) {
    return 0;
  }
  if (kind == CollectiveKind::kSendRecv) {
    return send_seconds(cluster, place, bytes);
  }
  const int inside = place.inside(cluster.devices_per_server);
  const int servers = (place.size + inside - 1) / inside;
  if (servers == 1) {
    return intra_seconds(cluster, place.size, kind, bytes);
  }
  if (inside == 1) {
    return inter_seconds(cluster, servers, kind, bytes);
  }
  const double part = bytes / inside;
  switch (kind) {
    case CollectiveKind::kAllReduce:
      return intra_seconds(cluster, inside, CollectiveKind::kReduceScatter, bytes) +
             inter_seconds(cluster, servers, kind, part) +
             intra_seconds(cluster, inside, CollectiveKind::kAllGather, bytes);
    case CollectiveKind::kAllToAll:
      return std::max(intra_seconds(cluster, inside, kind, bytes / servers),
                      inter_seconds(cluster, servers, kind, bytes));
    default:
      return intra_seconds(cluster, inside, kind, bytes) +
             inter_seconds(cluster, servers, kind, part);
  }
}

double send_seconds(const Cluster& cluster, const GroupPlace& place, double bytes) {
  const bool inside = place.size * place.stride <= cluster.devices_per_server;
  return inside ? intra_seconds(cluster, 2, CollectiveKind::kSendRecv, bytes)
                : inter_seconds(cluster, 2, CollectiveKind::kSendRecv, bytes);
}

double bytes_sent(CollectiveKind kind, int group, double bytes) {
  return group > 1 ? operation_shape(kind, group, bytes, false).volume : 0;
}

}  // namespace plait
