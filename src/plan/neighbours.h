// Why the best layout is the best: what each layout one step away from it loses.
#pragma once

#include <string>
#include <vector>

#include "plan/search.h"

namespace plait {

std::vector<Neighbour> compare_neighbours(const SearchRequest& request, const Cluster& cluster,
                                          const Candidate& best);

// "14 % slower: all-reduce exposed" or "stage 0 short by 6.1 GiB": how `other` compares with
// `best`.
std::string compare_estimates(const Estimate& best, const Estimate& other);

// The layout in sentences: what bounds it and what its neighbours lose.
std::vector<std::string> explain_choice(const Candidate& best,
                                        const std::vector<Neighbour>& neighbours);

}  // namespace plait
