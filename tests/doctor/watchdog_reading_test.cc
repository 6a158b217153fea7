// Which watchdogs speak of one group, and what they say together.
#include "doctor/watchdog_reading.h"

#include <gtest/gtest.h>

#include <fmt/format.h>

#include "doctor/scan_text.h"

namespace plait {
namespace {

// The two lines of a rank that waits in number `sequence` of a group.
std::string waits(int rank, const char* prefix, int sequence) {
  return fmt::format(
      "[rank{0}]:[E710 18:00:32.426182607 ProcessGroupNCCL.cpp:632] {1} Watchdog caught collective "
      "operation timeout: WorkNCCL(SeqNum={2}, OpType=ALLREDUCE, NumelIn=64, NumelOut=64, "
      "Timeout(ms)=600000) ran for 600077 milliseconds before timing out.\n",
      rank, prefix, sequence);
}

std::string enqueued(int rank, const char* prefix, int last) {
  return fmt::format(
      "[rank{0}]:[E710 18:00:32.626182607 ProcessGroupNCCL.cpp:1785] {1} Received a dump signal. "
      "last enqueued NCCL work: {2}, last completed NCCL work: {2}.This is most likely caused by\n",
      rank, prefix, last);
}

std::string described(const std::string& text) {
  return describe_watchdogs({scan_text(text, "log.txt", test_rules())}, test_rules());
}

TEST(WatchdogReading, GroupsWithOneIdAreToldApart) {
  // Two pairs of tensor parallelism: the id counts the groups of each process.
  const std::string pairs = waits(0, "[PG ID 2 PG GUID 12(tp) Rank 0]", 100) +
                            waits(1, "[PG ID 2 PG GUID 12(tp) Rank 1]", 100) +
                            waits(2, "[PG ID 2 PG GUID 13(tp) Rank 0]", 90) +
                            waits(3, "[PG ID 2 PG GUID 13(tp) Rank 1]", 90);
  EXPECT_EQ(described(pairs), "");
  EXPECT_EQ(described(waits(0, "[PG GUID weights_to_engine_(3,0) Rank 1]", 5) +
                      waits(4, "[PG GUID weights_to_engine_(3,1) Rank 1]", 3)),
            "");
}

TEST(WatchdogReading, OneGroupHasDifferentIdsOnItsRanks) {
  EXPECT_EQ(described(waits(0, "[PG ID 3 PG GUID 12(tp) Rank 0]", 100) +
                      enqueued(1, "[PG ID 2 PG GUID 12(tp) Rank 1]", 99)),
            "plait watchdogs: rank 1 did not come to ALLREDUCE of 64 elements, number 100 of its "
            "group, in which one rank waits; its last is number 99\n");
}

TEST(WatchdogReading, NumberZeroIsAGroupLikeOthers) {
  // Rank 0 speaks of its group 0 first, then of another one.
  for (const char* prefix : {"[PG 0 (default_pg) Rank 0]", "[PG 0 Rank 0]"}) {
    const std::string peer = prefix[6] == '(' ? "[PG 0 (default_pg) Rank 1]" : "[PG 0 Rank 1]";
    const std::string text = described(enqueued(0, prefix, 50) + waits(0, "[PG 1 Rank 0]", 7) +
                                       waits(1, peer.c_str(), 51));
    EXPECT_NE(text.find("rank 0 did not come to ALLREDUCE of 64 elements, number 51"),
              std::string::npos)
        << prefix << ": " << text;
  }
}

TEST(WatchdogReading, LinesWithoutAGroupAreOfTheOnlyOneThatIsNamed) {
  EXPECT_NE(described(waits(0, "[Rank 0]", 100) + enqueued(1, "[PG ID 4 PG GUID 9 Rank 1]", 99)),
            "");
  EXPECT_EQ(described(waits(0, "[Rank 0]", 100) + enqueued(1, "[PG ID 0 PG GUID 0 Rank 1]", 99) +
                      enqueued(2, "[PG ID 4 PG GUID 9 Rank 1]", 99)),
            "");
}

}  // namespace
}  // namespace plait
