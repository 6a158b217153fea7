#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <numeric>
#include <thread>

#include "base/clock.h"
#include "base/error.h"
#include "collective_cases.h"
#include "comm/op_state.h"
#include "comm/rank_runner.h"

namespace plait {
namespace {

std::vector<int> all_ranks(int n) {
  std::vector<int> ranks(static_cast<size_t>(n));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

RankRunnerOptions runner(int ranks, double deadline_s = 30) {
  RankRunnerOptions options;
  options.ranks = ranks;
  options.threads_per_rank = 1;
  options.comm.deadline_s = deadline_s;
  return options;
}

// Runs `body` on every rank with a group of all; returns the error, which must come.
template <typename Body>
Error expect_error(const RankRunnerOptions& options, Body body) {
  try {
    run_ranks(options, [&](World& world) {
      auto group = world.create_group("all", {all_ranks(world.size())});
      body(world, *group);
    });
  } catch (const Error& e) {
    return e;
  }
  ADD_FAILURE() << "no error";
  return Error(ErrorCode::kIo, "");
}

bool has(const Error& e, const std::string& text) {
  return e.message().find(text) != std::string::npos;
}

void sum_one(ProcessGroup& group, Device& device, int64_t count, bool async = false) {
  Buffer buffer(device, count * 4, MemoryCategory::kComm);
  device.stream().zero(buffer.ptr(), count * 4);
  group.all_reduce({buffer.ptr(), count, DType::kF32, ReduceOp::kSum, async}).wait();
}

class Collectives : public testing::TestWithParam<std::tuple<int, std::string>> {};

TEST_P(Collectives, GiveExpectedValues) {
  RankRunnerOptions options = runner(std::get<0>(GetParam()));
  options.device = std::get<1>(GetParam());
  run_ranks(options, [](World& world) {
    auto group = world.create_group("all", {all_ranks(world.size())});
    EXPECT_EQ(group->rank(), world.rank());
    EXPECT_EQ(group->size(), world.size());
    if (group->size() > 1) {
      test::check_everything(*group, world.device());
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, Collectives,
                         testing::Combine(testing::Values(1, 2, 3, 5, 8),
                                          testing::ValuesIn(device_names())),
                         [](const auto& param_info) {
                           return std::get<1>(param_info.param) +
                                  std::to_string(std::get<0>(param_info.param));
                         });

TEST(LocalGroup, SizeOneCopies) {
  run_ranks(runner(1), [](World& world) {
    auto group = world.create_group("all", {{0}});
    for (const bool async : {false, true}) {
      const test::CollectiveCase c{1000, DType::kF32, async};
      test::check_all_reduce(*group, world.device(), c);
      test::check_reduce_scatter(*group, world.device(), c);
      test::check_all_gather(*group, world.device(), c);
      test::check_broadcast(*group, world.device(), c);
      test::check_all_to_all(*group, world.device(), c);
    }
    test::check_gather_bytes(*group);
    group->barrier();
  });
}

TEST(LocalGroup, SubGroupsAreIndependent) {
  run_ranks(runner(6), [](World& world) {
    auto even_odd = world.create_group("parity", {{4, 2, 0}, {1, 3, 5}});
    auto pairs = world.create_group("pair", {{0, 1}, {2, 3}});
    EXPECT_EQ(even_odd->size(), 3);
    EXPECT_EQ(even_odd->rank(), world.rank() % 2 == 0 ? (4 - world.rank()) / 2 : world.rank() / 2);
    EXPECT_EQ(pairs->size(), world.rank() < 4 ? 2 : 1);
    test::check_all_reduce(*even_odd, world.device(), {500, DType::kF32, false});
    test::check_all_reduce(*pairs, world.device(), {50000, DType::kF32, true});
    test::check_broadcast(*even_odd, world.device(), {500, DType::kF32, true});
  });
}

TEST(LocalGroup, BlockingSmallSendsBeforeReceivesDoNotDeadlock) {
  run_ranks(runner(2), [](World& world) {
    auto group = world.create_group("all", {{0, 1}});
    Buffer out(world.device(), 64, MemoryCategory::kComm);
    Buffer in(world.device(), 64, MemoryCategory::kComm);
    const int64_t mine = world.rank() + 10;
    world.device().stream().copy_to_device(out.ptr(), &mine, 8);
    group->send({out.ptr(), 8, 1 - world.rank(), false});
    group->recv({in.ptr(), 8, 1 - world.rank(), false});
    int64_t got = 0;
    world.device().stream().copy_to_host(&got, in.ptr(), 8);
    world.device().stream().synchronize();
    EXPECT_EQ(got, 1 - world.rank() + 10);
  });
}

TEST(LocalGroup, DroppedWorkCompletesBeforeItsBufferGoes) {
  run_ranks(runner(2), [](World& world) {
    auto group = world.create_group("all", {{0, 1}});
    for (int i = 0; i < 20; ++i) {
      Buffer buffer(world.device(), 400000, MemoryCategory::kComm);
      world.device().stream().zero(buffer.ptr(), 400000);
      const Work work =
          group->all_reduce({buffer.ptr(), 100000, DType::kF32, ReduceOp::kSum, true});
    }
  });
}

TEST(LocalFaults, FirstErrorIsReportedAndEndsEveryRankAtOnce) {
  for (const int64_t count : {int64_t{1}, int64_t{100000}}) {
    for (const bool async : {false, true}) {
      std::atomic<int> stopped = 0;
      const double start = now_s();
      const Error e = expect_error(runner(4, 60), [&](World& world, ProcessGroup& group) {
        for (int step = 0;; ++step) {
          if (world.rank() == 2 && step == 5) {
            throw_error(ErrorCode::kNonFinite, "loss is NaN");
          }
          try {
            sum_one(group, world.device(), count, async);
          } catch (const Error& error) {
            EXPECT_EQ(error.code(), ErrorCode::kCancelled);
            EXPECT_TRUE(has(error, "rank 2: loss is NaN")) << error.message();
            ++stopped;
            throw;
          }
        }
      });
      EXPECT_EQ(e.code(), ErrorCode::kNonFinite);
      EXPECT_EQ(e.message(), "rank 2: loss is NaN");
      EXPECT_EQ(stopped, 3);
      EXPECT_LT(now_s() - start, 20);
    }
  }
}

TEST(LocalFaults, RankThatThrowsWithOperationsInFlightStops) {
  const double start = now_s();
  const Error e = expect_error(runner(2, 60), [&](World& world, ProcessGroup& group) {
    Buffer buffer(world.device(), 4000000, MemoryCategory::kComm);
    world.device().stream().zero(buffer.ptr(), 4000000);
    if (world.rank() == 1) {
      const Work work =
          group.all_reduce({buffer.ptr(), 1000000, DType::kF32, ReduceOp::kSum, true});
      const Work sent = group.send({buffer.ptr(), 4000000, 0, true});
      throw_error(ErrorCode::kIo, "disk gone");
    }
    sum_one(group, world.device(), 1000000, true);
    sum_one(group, world.device(), 1000000, true);
    group.barrier();
  });
  EXPECT_EQ(e.message(), "rank 1: disk gone");
  EXPECT_LT(now_s() - start, 20);
}

TEST(LocalFaults, DeadlineNamesOperationSequenceAndWhoIsMissing) {
  for (const bool async : {false, true}) {
    const Error e = expect_error(runner(3, 0.3), [&](World& world, ProcessGroup& group) {
      sum_one(group, world.device(), 10, async);
      group.barrier();
      if (world.rank() == 1) {
        std::this_thread::sleep_for(std::chrono::milliseconds(900));
      }
      sum_one(group, world.device(), 1000, async);
    });
    EXPECT_EQ(e.code(), ErrorCode::kComm);
    EXPECT_TRUE(has(e, "all_reduce (sequence 3, group all, 4000 B)")) << e.message();
    EXPECT_TRUE(has(e, "for rank 1 (which is between operations (last: barrier, sequence 2"))
        << e.message();
  }
}

TEST(LocalFaults, MissingSenderIsNamed) {
  const Error e = expect_error(runner(2, 0.2), [&](World& world, ProcessGroup& group) {
    Buffer buffer(world.device(), 64, MemoryCategory::kComm);
    if (world.rank() == 0) {
      group.recv({buffer.ptr(), 64, 1, false});
    } else {
      group.barrier();
    }
  });
  EXPECT_EQ(e.code(), ErrorCode::kComm);
  EXPECT_TRUE(has(e, "for rank 1") || has(e, "for rank 0")) << e.message();
  EXPECT_TRUE(has(e, "sequence 1, group all")) << e.message();
}

TEST(LocalFaults, DifferentOperationsAreNamed) {
  const Error e = expect_error(runner(3), [&](World& world, ProcessGroup& group) {
    sum_one(group, world.device(), world.rank() == 1 ? 8 : 9);
  });
  EXPECT_EQ(e.code(), ErrorCode::kComm);
  EXPECT_TRUE(has(e, "all_reduce of 8 f32 (sum)")) << e.message();
  EXPECT_TRUE(has(e, "all_reduce of 9 f32 (sum)")) << e.message();
  const Error other = expect_error(runner(2), [&](World& world, ProcessGroup& group) {
    if (world.rank() == 0) {
      group.barrier();
    } else {
      sum_one(group, world.device(), 5000);
    }
  });
  EXPECT_TRUE(has(other, "barrier")) << other.message();
  EXPECT_TRUE(has(other, "all_reduce of 5000 f32 (sum)")) << other.message();
}

TEST(LocalFaults, DifferentTransferSizesAreNamed) {
  const Error e = expect_error(runner(2), [&](World& world, ProcessGroup& group) {
    Buffer buffer(world.device(), 64, MemoryCategory::kComm);
    if (world.rank() == 0) {
      group.send({buffer.ptr(), 64, 1, true}).wait();
    } else {
      group.recv({buffer.ptr(), 32, 0, false});
    }
  });
  EXPECT_EQ(e.code(), ErrorCode::kComm);
  EXPECT_TRUE(has(e, "64 B")) << e.message();
  EXPECT_TRUE(has(e, "32 B")) << e.message();
}

TEST(LocalFaults, DifferentPartitionsAreRefused) {
  try {
    run_ranks(runner(2), [](World& world) {
      if (world.rank() == 0) {
        world.create_group("a", {{0, 1}});
      } else {
        world.create_group("a", {{0}, {1}});
      }
      auto group = world.create_group("b", {{0, 1}});
      group->barrier();
    });
    FAIL() << "no error";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::kComm);
    EXPECT_TRUE(has(e, "create_group")) << e.message();
  }
}

TEST(LocalFaults, AbortEndsPeersWithItsReason) {
  const Error e = expect_error(runner(3, 60), [&](World& world, ProcessGroup& group) {
    if (world.rank() == 0) {
      world.abort("the operator said so");
      return;
    }
    group.barrier();
  });
  EXPECT_EQ(e.code(), ErrorCode::kCancelled);
  EXPECT_TRUE(has(e, "was told to stop: rank 0 ended the job: the operator said so"))
      << e.message();
}

TEST(LocalFaults, AbortEndsARunThatWaitsForNobody) {
  const Error e = expect_error(runner(2, 60), [&](World& world, ProcessGroup&) {
    if (world.rank() == 1) {
      world.abort("the operator said so");
    }
  });
  EXPECT_EQ(e.code(), ErrorCode::kCancelled);
  EXPECT_TRUE(has(e, "rank 1 ended the job: the operator said so")) << e.message();
}

TEST(LocalFaults, UnknownDeviceIsReportedOnce) {
  RankRunnerOptions options = runner(2);
  options.device = "toaster";
  EXPECT_THROW(run_ranks(options, [](World&) {}), Error);
}

TEST(OperationTable, ShowsEveryRank) {
  run_ranks(runner(2), [](World& world) {
    auto group = world.create_group("dp", {{0, 1}});
    group->barrier();
    group->barrier();
    if (world.rank() == 0) {
      const std::string table = format_operation_table();
      EXPECT_NE(table.find("rank 0: between operations (last: barrier, sequence 2, of group dp)"),
                std::string::npos)
          << table;
      EXPECT_NE(table.find("rank 1: "), std::string::npos) << table;
    }
    group->barrier();
  });
}

}  // namespace
}  // namespace plait
