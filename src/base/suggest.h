// "Did you mean": the nearest of several names.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace plait {

// Levenshtein distance: inserted, deleted and replaced bytes.
size_t edit_distance(std::string_view a, std::string_view b);

// The first of the nearest names; empty if there is none or if the nearest shares less than half of
// its bytes with `word`.
std::string nearest_name(std::string_view word, const std::vector<std::string>& names);

}  // namespace plait
