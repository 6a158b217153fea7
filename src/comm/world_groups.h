// What create_group checks for every transport.
#pragma once

#include <string>
#include <vector>

namespace plait {

// CHECKs that the groups are non-empty, disjoint and within [0, world_size).
void check_partition(const std::string& name, const std::vector<std::vector<int>>& partition,
                     int world_size);

}  // namespace plait
