#include "base/suggest.h"

#include <algorithm>

namespace plait {

size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) {
    row[j] = j;
  }
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t substitute = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, substitute});
    }
  }
  return row[b.size()];
}

std::string nearest_name(std::string_view word, const std::vector<std::string>& names) {
  // Long words come from hostile files alone; the distance takes quadratic time.
  static constexpr size_t kWordMax = 100;
  if (word.size() > kWordMax) {
    return "";
  }
  std::string best;
  size_t best_distance = std::string_view::npos;
  for (const std::string& name : names) {
    const size_t distance = edit_distance(word, name);
    if (distance < best_distance && 2 * distance <= std::max(word.size(), name.size())) {
      best_distance = distance;
      best = name;
    }
  }
  return best;
}

}  // namespace plait
