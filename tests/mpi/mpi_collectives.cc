// The checks of tests/comm on a group of MPI processes; started by mpirun. Exit status 1 when a
// check failed on this rank.
#include <gtest/gtest.h>

#include <cstdio>
#include <numeric>
#include <vector>

#include "base/error.h"
#include "collective_cases.h"
#include "comm/rank_runner.h"

namespace plait {
namespace {

void check_sub_groups(World& world) {
  std::vector<std::vector<int>> parity(2);
  for (int rank = 0; rank < world.size(); ++rank) {
    parity[static_cast<size_t>(rank % 2)].push_back(rank);
  }
  auto half = world.create_group("parity", parity);
  auto pair = world.create_group("pair", {{0, 1}});
  EXPECT_EQ(half->size(), world.size() / 2);
  EXPECT_EQ(pair->size(), world.rank() < 2 ? 2 : 1);
  // Both groups' operations are in flight at once.
  Buffer buffer(world.device(), 8 * 50000, MemoryCategory::kComm);
  std::vector<int64_t> ones(50000, 1);
  world.device().stream().copy_to_device(buffer.ptr(), ones.data(), 8 * 50000);
  Work work = half->all_reduce({buffer.ptr(), 50000, DType::kI64, ReduceOp::kSum, true});
  test::check_all_reduce(*pair, world.device(), {50000, DType::kF32, true});
  work.wait();
  world.device().stream().copy_to_host(ones.data(), buffer.ptr(), 8 * 50000);
  world.device().stream().synchronize();
  EXPECT_EQ(ones.back(), half->size());
}

void check_large(ProcessGroup& group, Device& device) {
  // More than one segment, not a multiple of it.
  const test::CollectiveCase c{5000011, DType::kF32, false};
  test::check_all_reduce(group, device, c);
  test::check_reduce_scatter(group, device, {3000017, DType::kF32, true});
}

}  // namespace
}  // namespace plait

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  plait::RankRunnerOptions options;
  options.ranks = plait::launcher_world_size();
  options.threads_per_rank = 1;
  if (argc > 1) {
    options.device = argv[1];
  }
  try {
    plait::run_ranks(options, [](plait::World& world) {
      std::vector<int> ranks(static_cast<size_t>(world.size()));
      std::iota(ranks.begin(), ranks.end(), 0);
      auto group = world.create_group("all", {ranks});
      EXPECT_EQ(group->rank(), world.rank());
      if (world.size() > 1) {
        plait::test::check_everything(*group, world.device());
        plait::check_large(*group, world.device());
        plait::check_sub_groups(world);
      }
    });
  } catch (const plait::Error& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return plait::exit_code(e.code());
  }
  return testing::UnitTest::GetInstance()->ad_hoc_test_result().Failed() ? 1 : 0;
}
