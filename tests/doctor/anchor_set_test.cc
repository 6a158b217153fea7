#include "doctor/anchor_set.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <utility>

namespace plait {
namespace {

using Found = std::set<std::pair<size_t, int>>;

Found search(const std::vector<std::string>& anchors, const std::string& text) {
  const AnchorSet set(anchors);
  Found found;
  uint32_t state = set.start();
  for (size_t at = 0; at < text.size(); ++at) {
    state = set.next(state, static_cast<unsigned char>(text[at]));
    if (state > 0 && state < set.num_special()) {
      for (const int anchor : set.found(state)) {
        found.insert({at + 1, anchor});
      }
    }
  }
  return found;
}

TEST(AnchorSet, FindsOverlappingAndNestedTexts) {
  EXPECT_EQ(search({"he", "she", "hers"}, "uSHERS"), (Found{{4, 0}, {4, 1}, {6, 2}}));
}

TEST(AnchorSet, NothingReachesAcrossALine) {
  EXPECT_EQ(search({"abc"}, "ab\nc abc"), (Found{{8, 0}}));
}

TEST(AnchorSet, BytesAboveAsciiAreBytes) {
  EXPECT_EQ(search({"\xe5\x86\x85", "x"}, "x\xe5\x86\x85"), (Found{{1, 1}, {4, 0}}));
}

TEST(AnchorSet, ANewlineIsStateZero) {
  const AnchorSet set({"abc"});
  EXPECT_EQ(set.next(set.start(), '\n'), 0U);
  EXPECT_NE(set.next(set.start(), 'x'), 0U);
}

}  // namespace
}  // namespace plait
