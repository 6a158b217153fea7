// Archives of collected logs: what is in them, what is not, and that logs reads them.
#include "doctor/collect.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "base/file.h"
#include "doctor/env_facts.h"
#include "doctor/scan_text.h"
#include "doctor/tar_reader.h"
#include "doctor/tar_writer.h"
#include "support/test_files.h"

namespace plait {
namespace {

const std::string kFault =
    "EJ0001: [PID: 9] 2024-05-21-11:57:54.167.645 Failed to initialize the HCCP process.\n";

std::map<std::string, std::string> members(const std::string& path) {
  std::string damage;
  const std::unique_ptr<ByteReader> reader = open_gzip(open_file({path, 0, -1}), damage);
  std::map<std::string, std::string> result;
  EXPECT_EQ(read_tar(*reader,
                     [&](const std::string& name, ByteReader& content) {
                       std::string text(size_t{32} << 20, '\0');
                       size_t used = 0;
                       for (size_t count = 1; count > 0; used += count) {
                         count = content.read({text.data() + used, text.size() - used});
                       }
                       result[name] = text.substr(0, used);
                     }),
            "");
  EXPECT_EQ(damage, "");
  return result;
}

class Collect : public testing::Test {
 protected:
  Collect() { std::filesystem::create_directories(folder_.file("logs")); }
  CollectOptions options() const {
    CollectOptions result;
    result.paths = {folder_.file("logs")};
    result.state = false;
    return result;
  }
  std::string log(const std::string& name) const { return folder_.file("logs/" + name); }
  std::string stored(const std::string& name) const {
    return "files/" + TarWriter::safe_name(log(name));
  }

  TestFolder folder_;
};

TEST_F(Collect, TakesTextFlightRecordsAndPackedLogsButNoBinaries) {
  write_file_atomic(log("a.log"), kFault + "password=abc\n");
  write_file_atomic(log("core"), std::string("\x7f"
                                             "ELF\0\0",
                                             6));
  collect_host(options(), folder_.file("part"));
  const std::map<std::string, std::string> found = members(folder_.file("part"));
  ASSERT_TRUE(found.contains(stored("a.log")));
  EXPECT_EQ(found.at(stored("a.log")), kFault + "password=[removed: password]\n");
  EXPECT_FALSE(found.contains(stored("core")));
  EXPECT_NE(found.at("plait-state/left_out.txt").find("core"), std::string::npos);
  EXPECT_NE(found.at("plait-state/removed.txt").find("1 password in files/"), std::string::npos);
}

TEST_F(Collect, StaysBelowItsLimitAndPrefersTheNewest) {
  std::string noise;
  uint32_t state = 1;
  while (noise.size() < (size_t{900} << 10)) {
    state = state * 1664525U + 1013904223U;
    noise += static_cast<char>('!' + (state >> 24) % 90);
    noise += noise.size() % 100 == 0 ? "\n" : "";
  }
  for (int i = 0; i < 6; ++i) {
    write_file_atomic(log(std::to_string(i)), noise);
    std::filesystem::last_write_time(
        log(std::to_string(i)),
        std::filesystem::file_time_type::clock::now() - std::chrono::hours(i));
  }
  CollectOptions limited = options();
  limited.max_bytes = int64_t{2} << 20;
  collect_host(limited, folder_.file("part"));
  EXPECT_LE(std::filesystem::file_size(folder_.file("part")), size_t{2} << 20);
  const std::map<std::string, std::string> found = members(folder_.file("part"));
  EXPECT_TRUE(found.contains(stored("0")));
  EXPECT_FALSE(found.contains(stored("5")));
  EXPECT_NE(found.at("plait-state/left_out.txt").find("/5: the archive would become too large"),
            std::string::npos);
}

TEST_F(Collect, OfLongFilesTheFrontAndTheNewestPartAreKept) {
  std::string text = "first line\n";
  while (text.size() < (size_t{40} << 20)) {
    text += "a line of a log that says nothing at all, and that with many words in it\n";
  }
  write_file_atomic(log("long"), text + kFault);
  collect_host(options(), folder_.file("part"));
  const std::string kept = members(folder_.file("part")).at(stored("long"));
  EXPECT_LT(kept.size(), size_t{17} << 20);
  EXPECT_TRUE(kept.starts_with("first line\n"));
  EXPECT_TRUE(kept.ends_with(kFault));
  EXPECT_NE(kept.find(" bytes are left out here]\n"), std::string::npos);
}

TEST_F(Collect, MergedPartsAreReadWithTheirHostsAndClocks) {
  write_file_atomic(log("a.log"), kFault + "secret=abc\n");
  collect_host(options(), folder_.file("part"));
  const CollectSummary summary = merge_parts(
      {{"h0", folder_.file("part"), "", 0, 0}, {"h1", folder_.file("part"), "", 3600, 0.01}},
      folder_.file("bundle.tar.gz"));
  EXPECT_TRUE(summary.problems.empty());
  EXPECT_EQ(summary.num_files, 2);
  EXPECT_EQ(summary.removed.at("token"), 2);
  const Diagnosis diagnosis =
      diagnose(scan_logs({folder_.file("bundle.tar.gz")}, test_rules(), {}), test_rules());
  EXPECT_EQ(diagnosis.name, "residual-process");
  // With the clocks brought together h1 was first.
  EXPECT_EQ(diagnosis.guilty.host, "h1");
  ASSERT_FALSE(diagnosis.notes.empty());
  EXPECT_NE(diagnosis.notes[0].find("host h1 was +3600.0 s off"), std::string::npos);
}

TEST_F(Collect, TheRecordedStateOfEachHostIsJudged) {
  const auto state = [&](const std::string& host, const std::string& hosts_tool) {
    write_env(
        {{"environment", "HCCL_CONNECT_TIMEOUT=60\n"}, {"hccn_tool -i 0 -link -g", hosts_tool}},
        folder_.file("all/" + host + "/plait-state/env"));
    write_file_atomic(folder_.file("all/" + host + "/a.log"), "nothing that is known\n");
  };
  state("h0", "link status: UP\n");
  state("h1", "link status: DOWN\n");
  const Diagnosis diagnosis =
      diagnose(scan_logs({folder_.file("all")}, test_rules(), {}), test_rules());
  EXPECT_EQ(diagnosis.name, "unknown");
  EXPECT_TRUE(diagnosis.fix.starts_with("First mend what is bad")) << diagnosis.fix;
  const auto says = [&](const std::string& word) {
    std::vector<std::string> hosts;
    for (const StateRemark& remark : diagnosis.environment) {
      if (remark.check.evidence.find(word) != std::string::npos) {
        hosts = remark.hosts;
      }
    }
    return hosts;
  };
  EXPECT_EQ(says("DOWN"), std::vector<std::string>({"h1"}));
  EXPECT_EQ(says("HCCL_CONNECT_TIMEOUT"), std::vector<std::string>({"h0", "h1"}));
  EXPECT_NE(diagnosis_text(diagnosis).find("Recorded state of the hosts"), std::string::npos);
}

TEST_F(Collect, ADamagedPartIsToldAndDoesNotSpoilTheOthers) {
  write_file_atomic(log("a.log"), kFault);
  collect_host(options(), folder_.file("part"));
  const std::string whole = read_file(folder_.file("part"));
  write_file_atomic(folder_.file("cut"), whole.substr(0, whole.size() / 2));
  const CollectSummary summary = merge_parts({{"h0", folder_.file("cut"), "", 0, 0},
                                              {"h1", folder_.file("part"), "", 0, 0},
                                              {"h1", "", "no route to host", 0, 0}},
                                             folder_.file("bundle.tar.gz"));
  ASSERT_EQ(summary.problems.size(), 2U);
  const std::map<std::string, std::string> found = members(folder_.file("bundle.tar.gz"));
  EXPECT_TRUE(found.contains("h0/plait-state/problem.txt"));
  EXPECT_TRUE(found.contains("h1/" + stored("a.log")));
  EXPECT_EQ(found.at("h1-2/plait-state/problem.txt"), "no route to host\n");
}

TEST(TarWriter, NamesCannotLeaveTheFolder) {
  EXPECT_EQ(TarWriter::safe_name("/a/../../b/./c"), "a/b/c");
  EXPECT_EQ(TarWriter::safe_name("../.."), "file");
}

TEST(TarWriter, LongNamesComeBack) {
  const TestFolder folder;
  const std::string name = std::string(60, 'a') + "/" + std::string(180, 'b') + ".log";
  TarWriter writer(folder.file("x.tar.gz"));
  writer.add(name, "text", 5);
  writer.add("empty", "", 5);
  writer.finish();
  const std::map<std::string, std::string> found = members(folder.file("x.tar.gz"));
  EXPECT_EQ(found.at(name), "text");
  EXPECT_EQ(found.at("empty"), "");
}

}  // namespace
}  // namespace plait
