// What ranks were in, read back from their records.
#include "comm/flight_record.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "base/file.h"
#include "comm/operation.h"
#include "doctor/scan_text.h"
#include "support/test_files.h"

namespace plait {
namespace {

// Ranks of this process that record into `folder`.
class Ranks {
 public:
  Ranks(const TestFolder& folder, int size) {
    set_flight_folder(folder.path());
    std::vector<int> members;
    for (int rank = 0; rank < size; ++rank) {
      members.push_back(rank);
    }
    for (int rank = 0; rank < size; ++rank) {
      records_.push_back(std::make_unique<OperationRecord>(rank, "dp", members));
    }
    set_flight_folder("");
  }
  OperationRecord& operator[](int rank) { return *records_[static_cast<size_t>(rank)]; }

 private:
  std::vector<std::unique_ptr<OperationRecord>> records_;
};

OperationRecord::Details all_reduce_of(int64_t count) {
  Operation operation;
  operation.kind = OpKind::kAllReduce;
  operation.count = count;
  return {operation.signature(), operation.bytes()};
}

Diagnosis diagnose_folder(const TestFolder& folder) {
  return diagnose(scan_logs({folder.path()}, test_rules(), {}), test_rules());
}

TEST(FlightRecord, TheRankThatDidNotComeIsNamed) {
  const TestFolder folder;
  Ranks ranks(folder, 4);
  for (int rank = 0; rank < 4; ++rank) {
    ranks[rank].begin(OpKind::kAllReduce, 1, all_reduce_of(8));
    ranks[rank].end();
    if (rank != 2) {
      ranks[rank].begin(OpKind::kAllReduce, 2, all_reduce_of(8));
    }
  }
  const Diagnosis diagnosis = diagnose_folder(folder);
  EXPECT_EQ(diagnosis.name, "flight-rank-absent");
  EXPECT_EQ(diagnosis.guilty.rank, "2");
  EXPECT_NE(diagnosis.cause.find("all_reduce"), std::string::npos);
}

TEST(FlightRecord, TheRankThatCalledSomethingElseIsNamed) {
  const TestFolder folder;
  Ranks ranks(folder, 3);
  for (int rank = 0; rank < 3; ++rank) {
    ranks[rank].begin(OpKind::kAllReduce, 1, all_reduce_of(rank == 1 ? 16 : 8));
  }
  const Diagnosis diagnosis = diagnose_folder(folder);
  EXPECT_EQ(diagnosis.name, "flight-call-mismatch");
  EXPECT_EQ(diagnosis.guilty.rank, "1");
  EXPECT_NE(diagnosis.cause.find("16"), std::string::npos);
}

TEST(FlightRecord, ARunThatEndedSaysNothing) {
  const TestFolder folder;
  Ranks ranks(folder, 2);
  for (int rank = 0; rank < 2; ++rank) {
    ranks[rank].begin(OpKind::kBarrier, 1);
    ranks[rank].end();
  }
  EXPECT_EQ(diagnose_folder(folder).name, "unknown");
}

TEST(FlightRecord, SurvivesAKill) {
  const TestFolder folder;
  const pid_t child = fork();
  if (child == 0) {
    Ranks ranks(folder, 2);
    ranks[0].begin(OpKind::kAllGather, 7, {0, 4096});
    kill(getpid(), SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));
  const FlightLog log = read_flight_log(read_file(folder.file("flight-rank0.bin")));
  EXPECT_EQ(log.pid, child);
  ASSERT_EQ(log.operations.size(), 1U);
  EXPECT_EQ(log.operations[0].kind, OpKind::kAllGather);
  EXPECT_EQ(log.operations[0].sequence, 7U);
  EXPECT_EQ(log.operations[0].bytes, 4096);
  EXPECT_EQ(log.operations[0].end, 0);
  ASSERT_EQ(log.groups.size(), 1U);
  EXPECT_EQ(log.groups[0].ranks, (std::vector<int>{0, 1}));
}

TEST(FlightRecord, KeepsTheLastOperations) {
  const TestFolder folder;
  Ranks ranks(folder, 1);
  for (uint64_t i = 1; i <= kFlightEntries + 10; ++i) {
    ranks[0].begin(OpKind::kBarrier, i);
    ranks[0].end();
  }
  const FlightLog log = read_flight_log(read_file(folder.file("flight-rank0.bin")));
  ASSERT_EQ(log.operations.size(), static_cast<size_t>(kFlightEntries));
  EXPECT_EQ(log.operations.front().sequence, 11U);
  EXPECT_EQ(log.operations.back().sequence, static_cast<uint64_t>(kFlightEntries) + 10);
}

TEST(FlightRecord, DamagedFilesAreRead) {
  const TestFolder folder;
  Ranks ranks(folder, 1);
  ranks[0].begin(OpKind::kBarrier, 1);
  const std::string bytes = read_file(folder.file("flight-rank0.bin"));
  for (size_t size = 8; size < bytes.size(); size += 997) {
    EXPECT_LE(read_flight_log(bytes.substr(0, size)).operations.size(), 1U);
  }
  std::string noise = bytes;
  for (size_t i = 8; i < noise.size(); ++i) {
    noise[i] = static_cast<char>(i * 31);
  }
  read_flight_log(noise);
}

}  // namespace
}  // namespace plait
