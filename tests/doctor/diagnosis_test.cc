// The verdict over several ranks: who failed first, who is missing, who only waited.
#include "doctor/diagnosis.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/json_full.h"
#include "doctor/scan_text.h"

namespace plait {
namespace {

std::string notify_timeout(int rank, const char* time) {
  return fmt::format(
      "[rank{0}]: EI0002: [PID: {0}00] {1} The wait execution of the Notify register times out. "
      "base information: [streamID:[2], taskID[77], tag[AllReduce_192.0.2.9%eth0_60000_0_17], "
      "AlgType(level 0-1-2):[mesh].] group information: [group:[g], rankSize[4], rankId[{0}].]\n",
      rank, time);
}

TEST(Diagnosis, ACauseOnOneRankBeatsTimeoutsOnTheOthers) {
  const Diagnosis diagnosis = diagnose_texts({
      {"node0/rank_0.log", notify_timeout(0, "2025-01-01-10:30:40.000.000")},
      {"node0/rank_1.log", notify_timeout(1, "2025-01-01-10:30:40.100.000")},
      {"node1/rank_2.log",
       "[ERROR] 2025-01-01-10:00:01 (PID:200, Device:2, RankID:2) ERR00006\n"
       "EL0004: [PID: 200] 2025-01-01-10:00:01.000.000 Failed to allocate memory.\n"},
      {"node1/rank_3.log", notify_timeout(3, "2025-01-01-10:30:41.000.000")},
  });
  EXPECT_EQ(diagnosis.name, "device-oom");
  EXPECT_EQ(diagnosis.guilty.rank, "2");
  EXPECT_EQ(diagnosis.guilty.host, "node1");
  ASSERT_GE(diagnosis.chain.size(), 2U);
  EXPECT_EQ(diagnosis.chain[0].name, "device-oom");
}

TEST(Diagnosis, TheRankThatSaysNothingIsNamed) {
  const Diagnosis diagnosis = diagnose_texts({
      {"rank_0.log", notify_timeout(0, "2025-01-01-10:30:40.000.000")},
      {"rank_1.log", notify_timeout(1, "2025-01-01-10:30:40.100.000")},
      {"rank_2.log", "iteration 5 done\n"},
      {"rank_3.log", notify_timeout(3, "2025-01-01-10:30:41.000.000")},
  });
  EXPECT_EQ(diagnosis.name, "hccl-notify-timeout");
  EXPECT_EQ(diagnosis.guilty.rank, "2");
}

TEST(Diagnosis, OfARankHalfALogAndOfAnotherNothing) {
  const Diagnosis diagnosis = diagnose_texts({
      {"rank_0.log", notify_timeout(0, "2025-01-01-10:30:40.000.000")},
      {"rank_1.log", notify_timeout(1, "2025-01-01-10:30:40.100.000")},
      {"rank_2.log", notify_timeout(2, "2025-01-01-10:30:41.000.000").substr(0, 200)},
  });
  EXPECT_EQ(diagnosis.name, "hccl-notify-timeout");
  EXPECT_EQ(diagnosis.guilty.rank, "3");
}

TEST(Diagnosis, WhatCameAfterATimeoutDidNotCauseIt) {
  const Diagnosis diagnosis = diagnose_texts({
      {"rank_0.log",
       "[ERROR] HCCL(1,a):2025-01-01-10:00:00.000.000 [a.cc:1] [1]|  192.0.2.8(1)   |  16666  |   "
       "192.0.2.9(0)   |  0  |  server  | time out |   DISABLE  |\n"
       "AttributeError: 2025-01-01-10:20:00.000.000 'NoneType' object has no attribute 'close'\n"},
  });
  EXPECT_EQ(diagnosis.name, "hccl-connect-timeout");
  EXPECT_EQ(diagnosis.guilty.rank, "1");
}

std::string refused_value(int rank, const char* time) {
  return fmt::format(
      "[ERROR] {1} (PID:{0}00, Device:{0}, RankID:{0}) ERR99999 PTA error\n"
      "[rank{0}]: ValueError: num_samples=0\n",
      rank, time);
}

TEST(Diagnosis, AnExceptionBeforeAWaitOfTheUsualHalfHourIsItsCause) {
  const std::string failed = refused_value(2, "2025-01-01-10:00:00");
  const std::string waited = notify_timeout(0, "2025-01-01-10:30:00.400.000") +
                             notify_timeout(1, "2025-01-01-10:30:00.600.000");
  for (const Diagnosis& diagnosis :
       {diagnose_text(failed + waited),
        diagnose_texts({{"rank_0.log", waited}, {"rank_2.log", failed}})}) {
    EXPECT_EQ(diagnosis.name, "argument-refused");
    EXPECT_EQ(diagnosis.guilty.rank, "2");
  }
}

TEST(Diagnosis, OneHostHasOneTimeZoneInOneForm) {
  const std::vector<std::pair<std::string, std::string>> files = {
      {"node1/rank_0.log", notify_timeout(0, "2025-01-01-12:00:00.400.000")},
      {"node1/rank_2.log", refused_value(2, "2025-01-01-10:00:00")},
  };
  EXPECT_EQ(diagnose_texts(files).name, "argument-refused");
  // The kernel's log is in local time, the container's in UTC.
  const Diagnosis mixed = diagnose_texts({
      {"node1/rank_0.log", notify_timeout(0, "2025-01-01-10:30:40.000.000")},
      {"node1/dmesg.txt",
       "[Wed Jan  1 18:30:10 2025] Out of memory: Killed process 200 (python) "
       "total-vm:79905000kB, anon-rss:22957108kB\n"},
  });
  EXPECT_EQ(mixed.name, "host-oom");
}

TEST(Diagnosis, AnExceptionOfAnotherRankWellBeforeAWaitIsItsCauseAcrossFiles) {
  const std::string waited = notify_timeout(0, "2025-01-01-10:30:40.000.000");
  const auto failed_at = [&](const char* time) {
    return diagnose_texts({{"rank_0.log", waited}, {"rank_1.log", refused_value(1, time)}});
  };
  const Diagnosis before = failed_at("2025-01-01-10:30:10");
  EXPECT_EQ(before.name, "argument-refused");
  EXPECT_EQ(before.guilty.rank, "1");
  EXPECT_EQ(failed_at("2025-01-01-10:30:35").name, "hccl-notify-timeout");
  EXPECT_EQ(failed_at("2025-01-01-10:31:10").name, "hccl-notify-timeout");
}

TEST(Diagnosis, ClocksThatAreHoursApartAreBroughtTogether) {
  // Rank 1's clock is three hours and seven minutes ahead. Both saw the time-out of one collective;
  // rank 1 lacked memory half an hour before.
  const Diagnosis diagnosis = diagnose_texts({
      {"rank_0.log", notify_timeout(0, "2025-01-01-10:30:40.000.000")},
      {"rank_1.log", "EL0004: [PID: 200] 2025-01-01-13:08:00.000.000 Failed to allocate memory.\n" +
                         notify_timeout(1, "2025-01-01-13:37:40.000.000")},
  });
  EXPECT_EQ(diagnosis.name, "device-oom");
  ASSERT_EQ(diagnosis.notes.size(), 1U);
  EXPECT_NE(diagnosis.notes[0].find("rank_1.log"), std::string::npos);
  EXPECT_EQ(diagnosis.chain[0].time, 20089 * 86400.0 + 10 * 3600 + 60);
}

TEST(Diagnosis, NothingKnownIsUnknownWithWhatToCollect) {
  const Diagnosis diagnosis = diagnose_text("all is well\n");
  EXPECT_EQ(diagnosis.name, "unknown");
  EXPECT_EQ(diagnosis.confidence, Confidence::kLow);
  EXPECT_NE(diagnosis.fix.find("Collect"), std::string::npos);
  const Diagnosis bare = diagnose_text("Killed\n");
  EXPECT_EQ(bare.name, "unknown");
}

TEST(Diagnosis, AConsequenceAloneIsUnknown) {
  const Diagnosis diagnosis = diagnose_text(
      "[W compiler_depend.ts:487] Warning: NPU warning, error code is 507048[Error]:\n");
  EXPECT_EQ(diagnosis.name, "unknown");
  EXPECT_FALSE(diagnosis.evidence.empty());
}

TEST(Diagnosis, LogsCannotSteerATerminal) {
  const Diagnosis diagnosis = diagnose_text(
      "\x1b[31mEJ0001: Failed to initialize the HCCP process\x07 \xc2\x9b \xe2\x80\xae \xff\n");
  EXPECT_EQ(diagnosis.name, "residual-process");
  for (const std::string& text : {diagnosis_text(diagnosis), diagnosis_json(diagnosis)}) {
    for (const char c : text) {
      EXPECT_TRUE(c == '\n' || (static_cast<unsigned char>(c) >= 0x20 && c != 0x7f));
    }
    EXPECT_EQ(text.find("\xc2\x9b"), std::string::npos);
    EXPECT_EQ(text.find("\xe2\x80\xae"), std::string::npos);
  }
}

TEST(Diagnosis, TheJsonHasItsFields) {
  const Json json = parse_json(
      diagnosis_json(diagnose_text(notify_timeout(0, "2025-01-01-10:30:40.000.000"))), "test");
  for (const char* key :
       {"class", "confidence", "guilty", "evidence", "fix", "chain", "ruled_out"}) {
    EXPECT_TRUE(json.contains(key)) << key;
  }
  EXPECT_EQ(json["evidence"][0]["line"], 1);
  EXPECT_EQ(json["evidence"][0]["file"], "log.txt");
}

}  // namespace
}  // namespace plait
