#include <string>

#include "fuzz/expect_refusal.h"
#include "fuzz/targets.h"
#include "topology/cluster_file.h"

namespace plait {

void fuzz_cluster_file(std::span<const std::byte> input) {
  const std::string text(reinterpret_cast<const char*>(input.data()), input.size());
  accept_or_refuse([&] {
    const ClusterFile file = parse_cluster_file(text, "input", {});
    for (const Cluster& cluster : file.clusters) {
      CHECK_GE(cluster.servers, 1);
      CHECK(cluster.chip.peak_16bit.value > 0);
      CHECK(cluster.devices_per_server == 1 || cluster.intra.bandwidth.value > 0);
    }
  });
}

}  // namespace plait
