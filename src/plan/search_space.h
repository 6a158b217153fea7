// The layouts that a search looks at. Internal to the search.
#pragma once

#include <functional>
#include <vector>

#include "plan/search.h"

namespace plait {

// All layouts of one tp, cp, pp: what one thread works on at a time.
struct SpaceBlock {
  int tp = 1, cp = 1, pp = 1;
};

// Throws kInvalidArgument for fixed degrees that cannot be met.
void check_fixed(const SearchRequest& request, const Cluster& cluster);

std::vector<SpaceBlock> search_blocks(const SearchRequest& request, const Cluster& cluster);

// Calls `look` with every valid layout; counts the enumerated and the invalid ones. `look` may
// change the job it is given.
void for_each_layout(const SearchRequest& request, const SpaceBlock& block,
                     const std::function<void(TrainJob&)>& look, SearchCounts& counts);

}  // namespace plait
