// Which rank a line is of, and who is waited for where lines name devices.
#include "doctor/processes.h"

#include <gtest/gtest.h>

#include <fmt/format.h>

#include "doctor/scan_text.h"

namespace plait {
namespace {

using Files = std::vector<std::pair<std::string, std::string>>;

std::string setup(int pid, int rank, int device, int size = 8) {
  return fmt::format(
      "[INFO] HCCL({0},python3):2025-07-01-08:00:00.000.001 [topoinfo_detect.cc:506] [{0}]"
      "[HCCL_TRACE][Flat]SetupAgent rankNum[{3}], rank[{1}], rootInfo identifier[192.0.2.1%eth0_"
      "60000_0_1751000000000001], server[192.0.2.2%eth0], serverPort[60000]deviceType[2], "
      "logicDevId[{2}], phydevId[{2}], deviceIp[198.51.100.{2}]\n",
      pid, rank, device, size);
}

std::string p2p_timeout(int pid, int device, int peer) {
  return fmt::format(
      "[ERROR] HCCL({0},python3):2025-07-01-08:02:12.000.001 [p2p_mgmt.cc:305] [{0}][Wait]"
      "[P2PConnected]connected p2p timeout, timeout:120 s. local logicDevid:{1}, remote physic "
      "id:{2}.\n",
      pid, device, peer);
}

std::string link_timeout(int pid, int rank, const std::vector<int>& peers) {
  std::string text = fmt::format(
      "[ERROR] HCCL({0},python3):2025-07-01-08:02:11.000.001 [hccl_socket_manager.cc:778] [{0}]"
      "[Wait][LinkEstablish]wait socket establish timeout, role[1] rank[{1}] timeout[120]\n",
      pid, rank);
  for (const int peer : peers) {
    text += fmt::format(
        "[ERROR] HCCL({0},python3):2025-07-01-08:02:11.000.002 [hccl_socket_manager.cc:553] [{0}] "
        "  |  198.51.100.{2}({2})   |  16666  |   198.51.100.{1}({1})   |  0  |  client  | time "
        "out |\n",
        pid, rank, peer);
  }
  return text;
}

void add_process(Files& files, int pid, const std::string& run, const std::string& debug) {
  files.emplace_back(fmt::format("node2/run/plog/plog-{}_1.log", pid), run);
  files.emplace_back(fmt::format("node2/debug/plog/plog-{}_2.log", pid), debug);
}

TEST(Processes, TheLogsOfOneProcessGoTogether) {
  const std::string plog = process_of_path("a/node2/debug/plog/plog-77_20250701.log");
  EXPECT_EQ(plog, process_of_path("a/node2/run/plog/plog-77_20250630.log"));
  EXPECT_EQ(plog, process_of_path("a/node2/debug/device-3/device-77_20250701.log"));
  EXPECT_NE(plog, process_of_path("a/node3/debug/plog/plog-77_20250701.log"));
  EXPECT_NE(plog, process_of_path("a/node2/debug/plog/plog-78_20250701.log"));
  EXPECT_EQ(process_of_path("a/node2/device-3/text.log"), "");
}

TEST(Processes, ADeviceThatNeighboursWaitForIsARank) {
  // Ranks 4, 6 and 7 wait for device 1 of their server; 6 and 7 for rank 4 as well.
  for (const bool has_log : {true, false}) {
    Files files;
    add_process(files, 40, setup(40, 4, 0), p2p_timeout(40, 0, 1));
    add_process(files, 42, setup(42, 6, 2), link_timeout(42, 6, {4}) + p2p_timeout(42, 2, 1));
    add_process(files, 43, setup(43, 7, 3), link_timeout(43, 7, {4}) + p2p_timeout(43, 3, 1));
    if (has_log) {
      add_process(files, 41, setup(41, 5, 1), "");
    }
    const Diagnosis diagnosis = diagnose_texts(files);
    EXPECT_EQ(diagnosis.name, "hccl-p2p-timeout");
    EXPECT_EQ(diagnosis.guilty.rank, "5");
    EXPECT_EQ(diagnosis.guilty.host, "node2");
    EXPECT_EQ(diagnosis.guilty.device, "1");
    EXPECT_NE(diagnosis.cause.find("rank 5 is waited for by 3 ranks"), std::string::npos)
        << diagnosis.cause;
  }
}

TEST(Processes, WithoutAStepBetweenDeviceAndRankNobodyIsNamed) {
  Files files;
  add_process(files, 40, setup(40, 4, 0), p2p_timeout(40, 0, 1));
  add_process(files, 42, setup(42, 7, 2), p2p_timeout(42, 2, 1));
  const Diagnosis diagnosis = diagnose_texts(files);
  EXPECT_EQ(diagnosis.name, "hccl-p2p-timeout");
  EXPECT_EQ(diagnosis.guilty.rank, "");
  EXPECT_EQ(diagnosis.guilty.device, "1");
}

TEST(Processes, ARankMayWaitForSeveral) {
  // The first line of each names a rank that waits itself.
  const Diagnosis diagnosis = diagnose_texts({
      {"a.log", link_timeout(11, 1, {2, 3})},
      {"b.log", link_timeout(12, 2, {1, 3})},
  });
  EXPECT_EQ(diagnosis.name, "hccl-connect-timeout");
  EXPECT_EQ(diagnosis.guilty.rank, "3");
  // As many wait for each: one is as good as the other.
  EXPECT_EQ(diagnose_texts({{"a.log", link_timeout(11, 1, {2, 3})}}).guilty.rank, "2,3");
}

TEST(Processes, TheLargestCommunicatorTellsTheRank) {
  std::vector<ScannedFile> files = {
      scan_text(setup(40, 6, 2) + setup(40, 1, 2, 2) + p2p_timeout(40, 2, 0),
                "node2/run/plog/plog-40_1.log", test_rules())};
  name_processes(files, test_rules());
  EXPECT_EQ(files[0].lines.back().origin.rank, 6);
  EXPECT_EQ(files[0].lines.back().origin.device, 2);
}

}  // namespace
}  // namespace plait
