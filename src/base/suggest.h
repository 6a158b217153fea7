// "Did you mean": the nearest of several names.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace plait {

// Inserted, deleted and replaced bytes, and swapped neighbours (Damerau-Levenshtein, optimal string
// alignment).
size_t edit_distance(std::string_view a, std::string_view b);

// The first of the nearest names, however far; ASCII case of `word` does not matter. Empty only if
// there is none. Looks at the first 32 bytes of `word`.
std::string closest_name(std::string_view word, const std::vector<std::string>& names);

// As closest_name, but empty if it shares less than half of its bytes with `word`; case matters.
std::string nearest_name(std::string_view word, const std::vector<std::string>& names);

}  // namespace plait
