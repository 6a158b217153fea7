// Groups of a world: what create_group checks for every transport, and the group of all ranks.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "comm/process_group.h"

namespace plait {

// CHECKs that the groups are non-empty, disjoint and within [0, world_size).
void check_partition(const std::string& name, const std::vector<std::vector<int>>& partition,
                     int world_size);

// Every rank of the world, in order. Collective over the world.
std::unique_ptr<ProcessGroup> create_world_group(World& world, const std::string& name);

}  // namespace plait
