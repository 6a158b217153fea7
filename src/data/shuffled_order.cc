#include "data/shuffled_order.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/rng.h"

namespace plait {

int64_t ShuffledOrder::item(int64_t sample) const {
  CHECK_GE(sample, 0);
  return (*permutation(sample / count_))[static_cast<size_t>(sample % count_)];
}

ShuffledOrder::Order ShuffledOrder::permutation(int64_t epoch) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (epoch != epoch_) {
    order_ = std::make_shared<const std::vector<int64_t>>(
        random_permutation(seed_, static_cast<uint64_t>(epoch), count_));
    epoch_ = epoch;
  }
  return order_;
}

int64_t validation_count(int64_t num_rows, double fraction) {
  if (fraction <= 0 || num_rows < 2) {
    return 0;
  }
  const auto wanted = static_cast<int64_t>(std::llround(fraction * static_cast<double>(num_rows)));
  return std::clamp<int64_t>(wanted, 1, num_rows - 1);
}

}  // namespace plait
