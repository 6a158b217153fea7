#include "doctor/numbers.h"

#include <gtest/gtest.h>

namespace plait {
namespace {

TEST(Numbers, AfterAKey) {
  EXPECT_EQ(number_after("device = [ 12]", "device"), 12);
  EXPECT_EQ(number_after("rank none, rank: 3", "rank"), 3);
  EXPECT_EQ(number_after("rank -1", "rank"), std::nullopt);
  EXPECT_EQ(number_after("rank 99999999999999999999", "rank"), std::nullopt);
  EXPECT_EQ(number_after("rank", "rank"), std::nullopt);
}

TEST(Numbers, OfKeptWords) {
  const Captures words = {{"last", "411."}, {"none", "-1"}, {"list", "3,4"}, {"dash", "-"}};
  EXPECT_EQ(number_of(words, "last"), 411);
  EXPECT_EQ(number_of(words, "none"), -1);
  EXPECT_EQ(number_of(words, "list"), std::nullopt);
  EXPECT_EQ(number_of(words, "dash"), std::nullopt);
  EXPECT_EQ(number_of(words, "missing"), std::nullopt);
}

}  // namespace
}  // namespace plait
