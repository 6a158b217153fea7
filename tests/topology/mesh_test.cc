#include "topology/mesh.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

namespace plait {
namespace {

constexpr Axis kAxes[] = {Axis::kTp, Axis::kCp, Axis::kDp, Axis::kPp};

Mesh random_mesh(std::mt19937_64& random) {
  const auto degree = [&] { return static_cast<int>(random() % 5 + 1); };
  return Mesh({.tp = degree(), .cp = degree(), .dp = degree(), .pp = degree()});
}

TEST(Mesh, CoordinatesRoundTrip) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    std::mt19937_64 random(seed);
    const Mesh mesh = random_mesh(random);
    std::set<std::vector<int>> seen;
    for (int rank = 0; rank < mesh.world_size(); ++rank) {
      std::vector<int> place;
      int rebuilt = 0;
      for (const Axis axis : kAxes) {
        const int coordinate = mesh.coordinate(rank, axis);
        ASSERT_GE(coordinate, 0);
        ASSERT_LT(coordinate, mesh.degree(axis));
        place.push_back(coordinate);
        rebuilt = mesh.with_coordinate(rebuilt, axis, coordinate);
        // Only this axis changes.
        const int other = static_cast<int>(random() % static_cast<uint64_t>(mesh.degree(axis)));
        const int moved = mesh.with_coordinate(rank, axis, other);
        ASSERT_EQ(mesh.with_coordinate(moved, axis, coordinate), rank);
        for (const Axis check : kAxes) {
          ASSERT_EQ(mesh.coordinate(moved, check),
                    check == axis ? other : mesh.coordinate(rank, check));
        }
      }
      ASSERT_EQ(rebuilt, rank);
      ASSERT_TRUE(seen.insert(place).second) << "two ranks at one place";
    }
  }
}

TEST(Mesh, GroupsPartitionTheWorld) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    std::mt19937_64 random(seed);
    const Mesh mesh = random_mesh(random);
    for (const Axis axis : kAxes) {
      std::vector<int> count(static_cast<size_t>(mesh.world_size()), 0);
      for (const std::vector<int>& group : mesh.groups(axis)) {
        ASSERT_EQ(static_cast<int>(group.size()), mesh.degree(axis));
        ASSERT_TRUE(std::ranges::is_sorted(group));
        for (size_t i = 0; i < group.size(); ++i) {
          ++count[static_cast<size_t>(group[i])];
          ASSERT_EQ(mesh.coordinate(group[i], axis), static_cast<int>(i));
          ASSERT_EQ(mesh.group(group[i], axis), group);
        }
      }
      ASSERT_TRUE(std::ranges::all_of(count, [](int n) { return n == 1; }));
    }
  }
}

TEST(Mesh, TwoAxesMeetInOneRank) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 50; ++round) {
    const Mesh mesh = random_mesh(random);
    const int rank = static_cast<int>(random() % static_cast<uint64_t>(mesh.world_size()));
    for (const Axis a : kAxes) {
      for (const Axis b : kAxes) {
        if (a == b) {
          continue;
        }
        const std::vector<int> group_a = mesh.group(rank, a);
        const std::vector<int> group_b = mesh.group(rank, b);
        std::vector<int> common;
        std::ranges::set_intersection(group_a, group_b, std::back_inserter(common));
        EXPECT_EQ(common, std::vector<int>{rank});
      }
    }
  }
}

// Megatron's default order: tp, cp, dp, pp.
TEST(Mesh, TpIsFastest) {
  const Mesh mesh({.tp = 2, .cp = 1, .dp = 2, .pp = 2});
  EXPECT_EQ(mesh.world_size(), 8);
  EXPECT_EQ(mesh.group(0, Axis::kTp), (std::vector<int>{0, 1}));
  EXPECT_EQ(mesh.group(0, Axis::kDp), (std::vector<int>{0, 2}));
  EXPECT_EQ(mesh.group(0, Axis::kPp), (std::vector<int>{0, 4}));
  EXPECT_EQ(mesh.group(7, Axis::kPp), (std::vector<int>{3, 7}));
  const Mesh with_cp({.tp = 2, .cp = 3, .dp = 5, .pp = 7});
  EXPECT_EQ(with_cp.with_coordinate(0, Axis::kTp, 1), 1);
  EXPECT_EQ(with_cp.with_coordinate(0, Axis::kCp, 1), 2);
  EXPECT_EQ(with_cp.with_coordinate(0, Axis::kDp, 1), 6);
  EXPECT_EQ(with_cp.with_coordinate(0, Axis::kPp, 1), 30);
  EXPECT_EQ(with_cp.world_size(), 210);
}

TEST(Mesh, NamesItsAxes) {
  EXPECT_STREQ(axis_name(Axis::kTp), "tp");
  EXPECT_STREQ(axis_name(Axis::kCp), "cp");
  EXPECT_STREQ(axis_name(Axis::kDp), "dp");
  EXPECT_STREQ(axis_name(Axis::kPp), "pp");
}

TEST(MeshDeathTest, RefusesImpossibleDegrees) {
  EXPECT_DEATH(Mesh({.tp = 0}), "check failed");
  EXPECT_DEATH(Mesh({.tp = 100000, .dp = 100000}), "check failed");
  EXPECT_DEATH(Mesh({.tp = 2}).coordinate(2, Axis::kTp), "check failed");
}

}  // namespace
}  // namespace plait
