// What HCCL's reports of failed tasks say together: different calls, late ranks, copies that fail.
#include "doctor/failed_tasks.h"

#include <gtest/gtest.h>

#include <algorithm>

#include <fmt/format.h>

#include "doctor/scan_text.h"

namespace plait {
namespace {

const std::string kGroup = "192.0.2.7%eth0_60000_0_1751000000000001";

struct Report {
  int rank = 0;
  std::string time = "10:00:00";
  std::string operation = "AllReduce";
  int index = 40;
  int count = 512;
  std::string group = kGroup;
  int group_size = 2;
  std::string called = "09:29:00";
};

// The three lines of a rank whose wait ended.
std::string report(const Report& r) {
  const std::string head = fmt::format(
      "[ERROR] HCCL({0},train):2025-07-01-{1}.000.100 [task_exception_handler.cc:900] "
      "[{0}][TaskExecStage][Timeout][Host]Task run failed, ",
      7000 + r.rank, r.time);
  return fmt::format(
      "{0}base information is streamID:[3], taskID[9], tag[{1}_{2}], AlgType(level 0-1-2):"
      "[fullmesh-ring-H-D].\n"
      "{0}groupRank information is group:[{2}], user define information[], rankSize[{3}], "
      "rankId[{4}].\n"
      "{0}opData information is timeStamp:[2025-07-01-{5}.000.000], deviceId[{4}], index[{6}], "
      "count[{7}], reduceType[sum], src[0x12c0], dst[0x12c1], dataType[float32].\n",
      head, r.operation, r.group, r.group_size, r.rank, r.called, r.index, r.count);
}

std::string exec_timeout(int pid, int seconds) {
  return fmt::format(
      "[INFO] HCCL({},train):2025-07-01-09:00:00.000.100 [externalinput.cc:985] "
      "HCCL_EXEC_TIMEOUT set by environment to [{}]s\n",
      pid, seconds);
}

Diagnosis of_two(const Report& a, const Report& b, const std::string& more = "") {
  return diagnose_texts({{"a.log", more + report(a)}, {"b.log", report(b)}});
}

TEST(FailedTasks, OtherCallsUnderOneNumberAreAMismatch) {
  const Diagnosis operations = of_two({.rank = 0}, {.rank = 1, .operation = "AllGather"});
  EXPECT_EQ(operations.name, "collective-mismatch");
  EXPECT_NE(operations.cause.find("rank 1 called AllGather of 512 float32 elements"),
            std::string::npos)
      << operations.cause;
  EXPECT_EQ(of_two({.rank = 0}, {.rank = 1, .count = 500}).name, "collective-mismatch");
  const Diagnosis of_three =
      diagnose_texts({{"a.log", report({.rank = 0, .group_size = 3})},
                      {"b.log", report({.rank = 1, .operation = "Broadcast", .group_size = 3})},
                      {"c.log", report({.rank = 2, .group_size = 3})}});
  EXPECT_EQ(of_three.guilty.rank, "1");
}

TEST(FailedTasks, OneCallIsNoMismatch) {
  EXPECT_EQ(of_two({.rank = 0}, {.rank = 1}).name, "hccl-notify-timeout");
  // All-to-all may hand in other counts, and who sends has a partner that receives.
  EXPECT_EQ(of_two({.rank = 0, .operation = "AlltoAllV"},
                   {.rank = 1, .operation = "AlltoAllV", .count = 1})
                .name,
            "hccl-notify-timeout");
  EXPECT_EQ(of_two({.rank = 0, .operation = "Send"}, {.rank = 1, .operation = "Receive"}).name,
            "hccl-notify-timeout");
}

TEST(FailedTasks, GroupsOfOneNameAreNotCompared) {
  // Each process counts its groups: these are two pairs, not one.
  const std::string whole = report({.rank = 3, .group = "group_name_0", .group_size = 4});
  const Diagnosis pairs =
      of_two({.rank = 0, .group = "group_name_3"},
             {.rank = 1, .operation = "AllGather", .group = "group_name_3"}, whole);
  EXPECT_NE(pairs.name, "collective-mismatch");
  const Diagnosis all = of_two({.rank = 0, .group = "group_name_3"},
                               {.rank = 1, .operation = "AllGather", .group = "group_name_3"});
  EXPECT_EQ(all.name, "collective-mismatch");
}

TEST(FailedTasks, TheRankWithTheLowerNumberIsBehind) {
  const Diagnosis diagnosis = of_two({.rank = 0, .index = 41}, {.rank = 1});
  EXPECT_EQ(diagnosis.name, "rank-behind");
  EXPECT_EQ(diagnosis.guilty.rank, "1");
}

TEST(FailedTasks, ARankThatCameAfterTheOthersGaveUpIsLate) {
  const Report late = {.rank = 1, .time = "10:06:40"};
  const Diagnosis known = of_two({.rank = 0}, late, exec_timeout(7000, 300));
  EXPECT_EQ(known.name, "rank-behind");
  EXPECT_EQ(known.guilty.rank, "1");
  EXPECT_NE(known.cause.find("400 s after rank 0, which waits for 300 s"), std::string::npos)
      << known.cause;
  EXPECT_TRUE(known.notes.empty());  // the calls are of one time, so are the clocks
  EXPECT_EQ(of_two({.rank = 0}, late).name, "rank-behind");
  // Both waited for somebody else.
  EXPECT_EQ(of_two({.rank = 0}, late, exec_timeout(7000, 1836)).name, "hccl-notify-timeout");
}

TEST(FailedTasks, AClockThatIsOffMakesNobodyLate) {
  const Diagnosis diagnosis =
      of_two({.rank = 0}, {.rank = 1, .time = "10:06:40", .called = "09:35:40"});
  EXPECT_EQ(diagnosis.name, "hccl-notify-timeout");
  EXPECT_EQ(diagnosis.notes.size(), 1U);
}

TEST(FailedTasks, AFailedCopyOnTheAiCpuIsTheCauseOfTheWaits) {
  const auto setup = [](int pid, int rank, int device) {
    return fmt::format(
        "[INFO] HCCL({0},python3):2025-07-01-08:00:00.000.001 [topoinfo_detect.cc:294] [{0}]"
        "[HCCL_TRACE]SetupAgent rankNum[2], rank[{1}], rootInfo identifier[{2}], "
        "server[192.0.2.7%eth0], serverPort[60000]deviceType[4], logicDevId[{3}], phydevId[{3}], "
        "deviceIp[192.0.2.9]\n",
        pid, rank, kGroup, device);
  };
  const std::string head = "[ERROR] HCCL(41,aicpu_scheduler):2025-07-01-";
  const Diagnosis diagnosis = diagnose_texts({
      {"worker-0/debug/device-5/device-500_20250701.log",
       head +
           "09:30:00.000.100 [aicpu_hccl_sqcq.cc:330] [88]Task {devId: 1 streamId: 7} run "
           "failed of exception, idx:[0], info:[streamId :7 taskId :30 errorCode :9 "
           "errorType :1 sqeType :11 sqId :7]\n" +
           head +
           "09:30:00.000.300 [aicpu_communicator.cc:3750] [88][TaskException][AICPU]base "
           "information is streamId:7, sqid:7, head:1, tail:2, type:SDMA, localRank:0, "
           "remoteRank:1, taskId:30\n"},
      {"worker-0/run/plog/plog-500_20250701.log", setup(500, 0, 5)},
      {"worker-1/debug/device-2/device-600_20250701.log",
       head + "10:00:20.000.100 [aicpu_communicator.cc:3083] [99][TaskException]base information "
              "is streamId:7, sqid:7, head:1, tail:2, type:NOTIFY WAIT, localRank:1, "
              "remoteRank:0, taskId:31\n"},
      {"worker-1/run/plog/plog-600_20250701.log", setup(600, 1, 2)},
  });
  EXPECT_EQ(diagnosis.name, "sdma-error");
  EXPECT_EQ(diagnosis.guilty.host, "worker-0");
  EXPECT_EQ(diagnosis.guilty.rank, "0");
  EXPECT_EQ(diagnosis.guilty.device, "5");
  EXPECT_TRUE(std::ranges::any_of(diagnosis.chain, [](const ChainLink& link) {
    return link.name == "hccl-notify-timeout" && link.who.find("rank 1") != std::string::npos;
  }));
}

}  // namespace
}  // namespace plait
