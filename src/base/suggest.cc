#include "base/suggest.h"

#include <algorithm>
#include <utility>

#include "base/text.h"

namespace plait {

size_t edit_distance(std::string_view a, std::string_view b) {
  // Rows i - 2, i - 1 and i of the table.
  std::vector<size_t> before(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) {
    row[j] = j;
  }
  for (size_t i = 1; i <= a.size(); ++i) {
    std::swap(before, last);
    std::swap(last, row);
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t substitute = last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, substitute});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        row[j] = std::min(row[j], before[j - 2] + 1);
      }
    }
  }
  return row[b.size()];
}

std::string closest_name(std::string_view word, const std::vector<std::string>& names) {
  constexpr size_t kLongest = 32;
  const std::string wanted = lower(std::string(word.substr(0, kLongest)));
  const auto nearest =
      std::min_element(names.begin(), names.end(), [&](const auto& a, const auto& b) {
        return edit_distance(wanted, a) < edit_distance(wanted, b);
      });
  return nearest == names.end() ? "" : *nearest;
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
