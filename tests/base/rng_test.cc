#include "base/rng.h"

#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

namespace plait {
namespace {

TEST(Rng, ValuesAreAFunctionOfSeedStreamAndIndex) {
  EXPECT_EQ(random_bits(1, 2, 3), random_bits(1, 2, 3));
  EXPECT_NE(random_bits(1, 2, 3), random_bits(1, 2, 4));
  EXPECT_NE(random_bits(1, 2, 3), random_bits(1, 3, 3));
  EXPECT_NE(random_bits(1, 2, 3), random_bits(2, 2, 3));
}

TEST(Rng, NormalHasZeroMeanAndUnitVariance) {
  double sum = 0;
  double squares = 0;
  constexpr int kCount = 200000;
  for (int i = 0; i < kCount; ++i) {
    const double x = random_normal(7, hash_name("w"), static_cast<uint64_t>(i));
    ASSERT_TRUE(std::isfinite(x));
    sum += x;
    squares += x * x;
  }
  EXPECT_NEAR(sum / kCount, 0, 0.01);
  EXPECT_NEAR(squares / kCount, 1, 0.02);
}

TEST(Rng, PermutationHoldsEveryIndexOnce) {
  std::vector<int64_t> order = random_permutation(3, 9, 1000);
  EXPECT_EQ(order, random_permutation(3, 9, 1000));
  EXPECT_NE(order, random_permutation(4, 9, 1000));
  std::sort(order.begin(), order.end());
  for (int64_t i = 0; i < 1000; ++i) {
    EXPECT_EQ(order[static_cast<size_t>(i)], i);
  }
  EXPECT_TRUE(random_permutation(1, 1, 0).empty());
}

}  // namespace
}  // namespace plait
