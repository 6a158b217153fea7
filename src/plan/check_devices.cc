// How many devices a job needs that no change of its settings makes fit.
#include <algorithm>

#include "plan/check_memory.h"
#include "plan/search.h"

namespace plait {

int least_devices(const TrainJob& job, const Cluster& cluster, int from) {
  // Beyond this a job is not what was meant.
  constexpr int kMost = 16384;
  SearchRequest request;
  request.job = job;
  request.cluster = cluster;
  if (job.pool_bytes > 0) {
    Sourced& memory = request.cluster.chip.memory_bytes;
    memory.value = std::min(memory.value, job.pool_bytes + cluster.chip.reserve_bytes.value);
  }
  request.top = 1;
  request.threads = 1;
  const int per_server = cluster.devices_per_server;
  int devices = std::max(from, 1);
  while (devices < kMost) {
    devices = devices < per_server ? 2 * devices
                                   : (2 * devices + per_server - 1) / per_server * per_server;
    request.devices = devices;
    if (devices > per_server && cluster.inter.bandwidth.value <= 0) {
      return 0;
    }
    if (!search_layouts(request).best.empty()) {
      return devices;
    }
  }
  return 0;
}

}  // namespace plait
