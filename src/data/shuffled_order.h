// The order in which an endless training run visits `count` items: a permutation per epoch.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

namespace plait {

// item(s) is element s % count of the permutation of epoch s / count. Thread-safe; keeps the
// permutation of the epoch that was asked for last.
class ShuffledOrder {
 public:
  ShuffledOrder(uint64_t seed, int64_t count) : seed_(seed), count_(count) {}

  int64_t item(int64_t sample) const;
  int64_t count() const { return count_; }

 private:
  using Order = std::shared_ptr<const std::vector<int64_t>>;

  Order permutation(int64_t epoch) const;

  uint64_t seed_;
  int64_t count_;
  mutable std::mutex mutex_;
  mutable int64_t epoch_ = -1;  // of order_
  mutable Order order_;
};

// How many of `num_rows` are set aside for validation: the last `fraction` of them, rounded, at
// least one, and never the only row; none if the fraction is 0.
int64_t validation_count(int64_t num_rows, double fraction);

}  // namespace plait
