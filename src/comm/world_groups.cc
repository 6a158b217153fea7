#include "comm/world_groups.h"

#include <numeric>

#include "base/error.h"

namespace plait {

void check_partition(const std::string& name, const std::vector<std::vector<int>>& partition,
                     int world_size) {
  std::vector<bool> seen(static_cast<size_t>(world_size), false);
  for (const std::vector<int>& group : partition) {
    PLAIT_CHECK_MSG(!group.empty(), "group {} has an empty member list", name);
    for (const int rank : group) {
      PLAIT_CHECK_MSG(rank >= 0 && rank < world_size,
                      "group {}: rank {} is outside the world of {}", name, rank, world_size);
      PLAIT_CHECK_MSG(!seen[static_cast<size_t>(rank)], "group {}: rank {} appears twice", name,
                      rank);
      seen[static_cast<size_t>(rank)] = true;
    }
  }
}

std::unique_ptr<ProcessGroup> create_world_group(World& world, const std::string& name) {
  std::vector<int> ranks(static_cast<size_t>(world.size()));
  std::iota(ranks.begin(), ranks.end(), 0);
  return world.create_group(name, {ranks});
}

}  // namespace plait
