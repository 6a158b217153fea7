#include "doctor/log_line.h"

#include <gtest/gtest.h>

namespace plait {
namespace {

constexpr double kDay = 86400;

// 2025-11-22 17:37:04 UTC.
constexpr double kNovember22 = 20414 * kDay + 17 * 3600 + 37 * 60 + 4;

TEST(LogLine, CannRecords) {
  const LineOrigin origin = read_line_origin(
      "[ERROR] HCCL(3977573,all_reduce_test):2025-11-22-17:37:04.447.996 [a.cc:816] [1]text");
  EXPECT_NEAR(origin.time, kNovember22 + 0.447996, 1e-4);
  EXPECT_TRUE(origin.has_year);
  EXPECT_EQ(origin.pid, 3977573);
  EXPECT_EQ(origin.module, "HCCL");
  EXPECT_EQ(origin.level, 'E');
}

TEST(LogLine, VariantsOfCannRecords) {
  const char* lines[] = {
      "[ERROR] HCCL(1265,):2025-11-22-17:37:04.447.996 [a]x",
      "[ERROR]HCCL(1265,python):2025-11-22-17:37:04.447.996 [a]x",
      "[ERROR] IMP(1265,IMP): 2025-11-22-17:37:04.447.996 [a]x",
      "[EVENT] TDT(1265,tsdaemon):2025-11-22 17:37:04.447.996 [a]x",
      "rubbish[ERROR] TSCH(1265,null):2025-11-22-17-37-04.447.996 [a]x",
  };
  for (const char* line : lines) {
    const LineOrigin origin = read_line_origin(line);
    EXPECT_NEAR(origin.time, kNovember22 + 0.447996, 1e-4) << line;
    EXPECT_EQ(origin.pid, 1265) << line;
  }
  EXPECT_EQ(read_line_origin("[ERROR] TSCH(-1,null):2025-11-22-17:37:04.1 x").pid, -1);
}

TEST(LogLine, TorchNpu) {
  const LineOrigin origin = read_line_origin(
      "[rank3]: [ERROR] 2025-11-22-17:37:04 (PID:927000, Device:2, RankID:3) ERR02200 DIST");
  EXPECT_NEAR(origin.time, kNovember22, 1e-6);
  EXPECT_EQ(origin.rank, 3);
  EXPECT_EQ(origin.device, 2);
  EXPECT_EQ(origin.pid, 927000);
  EXPECT_EQ(read_line_origin("[ERROR] 2025-11-22-17:37:04 (PID:1, Device:0, RankID:-1)").rank, -1);
  EXPECT_EQ(read_line_origin("EI0006: [PID: 77] 2025-11-22-17:37:04.1 Getting").pid, 77);
  EXPECT_EQ(read_line_origin("[PID: 78] 2025-11-22-17:37:04.1 X(EI0006): Getting").pid, 78);
}

TEST(LogLine, TimesOfOtherPrograms) {
  EXPECT_NEAR(read_line_origin("Thu Nov 22 17:37:04 2025 x").time, kNovember22, 1e-6);
  EXPECT_NEAR(read_line_origin("[Sat Nov 22 17:37:04 2025] Out of memory").time, kNovember22, 1e-6);
  EXPECT_NEAR(read_line_origin("I20251122 17:37:04.5 77 a.cc").time, kNovember22 + 0.5, 1e-6);
  EXPECT_NEAR(read_line_origin("[2025-11-22 17:37:04,250] [INFO] x").time, kNovember22 + 0.25,
              1e-6);
  EXPECT_NEAR(read_line_origin("2025-11-22T17:37:04+08:00 x").time, kNovember22, 1e-6);
  for (const char* line : {"INFO 11-22 17:37:04 [core.py:65] x", "[W1122 17:37:04.0 a.cpp:1] x",
                           "Nov 22 17:37:04 node1 kernel: x"}) {
    const LineOrigin origin = read_line_origin(line);
    EXPECT_NEAR(in_year_of(origin.time, kNovember22 - 200 * kDay), kNovember22, 1e-6) << line;
    EXPECT_FALSE(origin.has_year) << line;
  }
  EXPECT_LT(read_line_origin("[2454.830692] {6}[Hardware Error]").time, 0);
  EXPECT_LT(read_line_origin("version 2025-99-99-99:99:99").time, 0);
}

TEST(LogLine, DaysKeepTheirDateInEveryYear) {
  for (const char* day : {"01-01", "02-28", "03-01", "06-09", "12-31"}) {
    const double bare =
        read_line_origin(std::string("INFO ") + day + " 06:57:48 [core.py:65] x").time;
    for (int year = 2019; year <= 2032; ++year) {
      const std::string date = std::to_string(year) + "-" + day;
      const double full = read_line_origin("[" + date + " 06:57:48,000] [INFO] x").time;
      for (const char* other : {"-01-01", "-07-01", "-12-31"}) {
        const double same_year =
            read_line_origin("[" + std::to_string(year) + other + " 12:00:00,000] [INFO] x").time;
        EXPECT_NEAR(in_year_of(bare, same_year), full, 1e-3) << date << " by " << other;
      }
    }
  }
  const double leap = read_line_origin("INFO 02-29 06:57:48 [core.py:65] x").time;
  EXPECT_EQ(shown_time(in_year_of(leap, 1709251200.0)), "2024-02-29 06:57:48");
}

TEST(LogLine, LevelsOfLoggers) {
  for (const char* line : {"WARNING 06-17 02:21:30 [core.py:65] x", "a.py:3: UserWarning: x",
                           "[2025-11-22 17:37:04,250] [INFO] x", "2025-11-22 | WARN | x"}) {
    EXPECT_EQ(read_line_origin(line).level, 'W') << line;
  }
  EXPECT_EQ(read_line_origin("[ERROR] HCCL(7,python):2025-11-22-17:37:04 x").level, 'E');
  EXPECT_EQ(read_line_origin("ERROR 06-17 02:21:30 [core.py:65] x").level, 0);
}

TEST(LogLine, NamesInPaths) {
  const LineOrigin origin = read_path_origin("logs/node3/plog/plog-4711_20251122.log");
  EXPECT_EQ(origin.host, "node3");
  EXPECT_EQ(origin.pid, 4711);
  EXPECT_EQ(read_path_origin("a/rank_17/x.log").rank, 17);
  EXPECT_EQ(read_path_origin("192.0.2.7/hisi_logs/device-5/x").device, 5);
  EXPECT_EQ(read_path_origin("192.0.2.7/hisi_logs/device-5/x").host, "192.0.2.7");
  EXPECT_EQ(read_path_origin("train.log").rank, -1);
}

}  // namespace
}  // namespace plait
