// Several jobs in one folder, and folders of many ranks.
#include "doctor/jobs.h"

#include <gtest/gtest.h>

#include <fmt/format.h>

#include "doctor/scan_text.h"

namespace plait {
namespace {

std::string plog(int pid, int rank, const std::string& stamp, const std::string& time) {
  return fmt::format(
      "[INFO] HCCL({0},python):2025-03-01-{3}:00.000.001 [op_base.cc:1][{0}]Entry-"
      "HcclCommInitRootInfo:ranks[4], rank[{1}], rootinfo: host ip[192.0.2.1] port[60000] "
      "nicDeploy[1] identifier[192.0.2.1%eth0_60000_0_{2}], deviceLogicId[{1}]\n",
      pid, rank, stamp, time);
}

std::string wait_line(int pid, const std::string& stamp, const std::string& time) {
  return fmt::format(
      "EI0002: [PID: {0}] 2025-03-01-{2}:40.000.000 The wait execution of the Notify register "
      "times out. base information: [tag[AllReduce_192.0.2.1%eth0_60000_0_{1}]]\n",
      pid, stamp, time);
}

const char* const kOom =
    "EL0004: [PID: 11] 2025-03-01-10:20:00.000.000 Failed to allocate memory.\n";
const std::string kStampA = "1741000000000001";
const std::string kStampB = "1741000000000002";

TEST(Jobs, OtherCommunicatorsOfTheSameDeviceAreAnotherJob) {
  // Two jobs overlap on the same cards. The first ran out of memory; the second only waits, and
  // nothing in its logs explains that.
  const Diagnosis diagnosis = diagnose_texts({
      {"plog-10_1.log", plog(10, 0, kStampA, "10:00") + wait_line(10, kStampA, "10:50")},
      {"plog-11_1.log", plog(11, 1, kStampA, "10:00") + kOom},
      {"plog-20_1.log", plog(20, 0, kStampB, "10:30") + wait_line(20, kStampB, "11:20")},
      {"plog-21_1.log", plog(21, 1, kStampB, "10:30") + wait_line(21, kStampB, "11:20")},
  });
  EXPECT_EQ(diagnosis.name, "hccl-notify-timeout");
  EXPECT_EQ(diagnosis.job, "pids 20, 21");
  ASSERT_EQ(diagnosis.other_jobs.size(), 1U);
  EXPECT_EQ(diagnosis.other_jobs[0].name, "device-oom");
  EXPECT_EQ(diagnosis.other_jobs[0].job, "pids 10, 11");
}

TEST(Jobs, OneJobOfManyCommunicatorsStaysOne) {
  // Rank 1's second communicator binds the files.
  const Diagnosis diagnosis = diagnose_texts({
      {"plog-10_1.log", plog(10, 0, kStampA, "10:00") + wait_line(10, kStampA, "10:50")},
      {"plog-11_1.log", plog(11, 1, kStampA, "10:00") + plog(11, 1, kStampB, "10:01") + kOom},
      {"plog-12_1.log", plog(12, 2, kStampB, "10:01") + wait_line(12, kStampB, "10:50")},
  });
  EXPECT_EQ(diagnosis.name, "device-oom");
  EXPECT_TRUE(diagnosis.other_jobs.empty());
}

TEST(Jobs, NamesInPathsTellJobsApart) {
  const Diagnosis diagnosis = diagnose_texts({
      {"out/slurm-811.out", "EL0004: 2025-03-01-09:00:00.000.000 Failed to allocate memory.\n"},
      {"out/slurm-812.out",
       "EI0002: 2025-03-01-12:00:00.000.000 The wait execution of the Notify "
       "register times out.\n"},
      {"dmesg.txt", "usb 1-1: new device\n"},
  });
  EXPECT_EQ(diagnosis.job, "slurm-812");
  EXPECT_EQ(diagnosis.name, "hccl-notify-timeout");
  ASSERT_EQ(diagnosis.other_jobs.size(), 1U);
  const std::string text = diagnosis_text(diagnosis);
  EXPECT_NE(text.find("These logs are of 2 jobs; the above is about slurm-812"), std::string::npos);
  EXPECT_NE(diagnosis_json(diagnosis).find("\"other_jobs\""), std::string::npos);
}

TEST(Jobs, RanksOfOneJobAreNotSplitByTheirFolders) {
  const Diagnosis diagnosis = diagnose_texts({
      {"worker-0/rank_0.log", wait_line(10, kStampA, "10:50")},
      {"worker-1/rank_1.log", kOom},
  });
  EXPECT_EQ(diagnosis.name, "device-oom");
  EXPECT_TRUE(diagnosis.other_jobs.empty());
}

TEST(Jobs, TwoHundredRanks) {
  std::vector<std::pair<std::string, std::string>> files;
  std::string noise;
  for (int i = 0; i < 200; ++i) {
    noise += "iteration 17 | consumed samples: 1 | elapsed time per iteration (ms): 812.3\n";
  }
  for (int rank = 0; rank < 200; ++rank) {
    std::string text = plog(1000 + rank, rank, kStampA, "10:00") + noise;
    for (int line = 0; line < 40; ++line) {
      text += rank == 137 ? "" : wait_line(1000 + rank, kStampA, "11:00");
    }
    text += rank == 137 ? kOom : "RuntimeError: HCCL function error: ERR02200 DIST call failed\n";
    files.emplace_back(fmt::format("node{}/plog-{}_1.log", rank / 8, 1000 + rank), text);
  }
  const Diagnosis diagnosis = diagnose_texts(files);
  EXPECT_EQ(diagnosis.name, "device-oom");
  EXPECT_EQ(diagnosis.guilty.host, "node17");
  EXPECT_EQ(diagnosis.guilty.rank, "137");
}

}  // namespace
}  // namespace plait
