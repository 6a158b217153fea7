// The databases of torch_npu and msprof, written here with the documented columns.
#include <sqlite3.h>

#include <gtest/gtest.h>

#include <filesystem>

#include "base/error.h"
#include "base/file.h"
#include "profile/analysis.h"
#include "support/test_files.h"

namespace plait {
namespace {

namespace fs = std::filesystem;

void write_database(const std::string& path, const std::string& statements) {
  fs::create_directories(fs::path(path).parent_path());
  fs::remove(path);
  sqlite3* connection = nullptr;
  ASSERT_EQ(sqlite3_open(path.c_str(), &connection), SQLITE_OK);
  char* problem = nullptr;
  EXPECT_EQ(sqlite3_exec(connection, statements.c_str(), nullptr, nullptr, &problem), SQLITE_OK)
      << problem;
  sqlite3_close(connection);
}

constexpr const char* kAnalysis =
    "CREATE TABLE StepTraceTime(deviceId NUMERIC, step TEXT, computing NUMERIC,"
    " communication_not_overlapped NUMERIC, overlapped NUMERIC, communication NUMERIC,"
    " free NUMERIC, stage NUMERIC, bubble NUMERIC,"
    " communication_not_overlapped_and_exclude_receive NUMERIC, preparing NUMERIC);"
    "INSERT INTO StepTraceTime VALUES(0,'0',90000,30000,9000,39000,4000,124000,0,30000,0),"
    " (0,'1',46000,10000,4500,14500,2000,56000,2000,8000,100),"
    " (0,'2',46000,11000,4500,15500,1000,56000,2000,9000,100);"
    "CREATE TABLE CommAnalyzerTime(hccl_op_name TEXT, group_name TEXT, start_timestamp NUMERIC,"
    " elapse_time NUMERIC, transit_time NUMERIC, wait_time NUMERIC,"
    " synchronization_time NUMERIC, idle_time NUMERIC, step TEXT, type TEXT);"
    "INSERT INTO CommAnalyzerTime VALUES"
    " ('hcom_allReduce__303_0_1','77',1,6,4,1,0,1,'step1','collective'),"
    " ('hcom_allReduce__303_1_1','77',2,8,4,3,0,1,'step2','collective'),"
    " ('Total Op Info','',0,14,8,4,0,2,'step1','collective');"
    "CREATE TABLE CommAnalyzerBandwidth(hccl_op_name TEXT, group_name TEXT, transport_type TEXT,"
    " transit_size NUMERIC, transit_time NUMERIC, bandwidth NUMERIC, large_packet_ratio NUMERIC,"
    " package_size NUMERIC, count NUMERIC, total_duration NUMERIC, step TEXT, type TEXT);"
    "INSERT INTO CommAnalyzerBandwidth VALUES"
    " ('hcom_allReduce__303_0_1','77','HCCS',64,4,16,1,8,4,2,'step1','collective'),"
    " ('hcom_allReduce__303_0_1','77','HCCS',64,4,16,1,16,2,2,'step1','collective'),"
    " ('hcom_allReduce__303_1_1','77','HCCS',64,4,16,1,8,8,4,'step2','collective');"
    "CREATE TABLE CommAnalyzerMatrix(hccl_op_name TEXT, group_name TEXT, src_rank TEXT,"
    " dst_rank TEXT, transport_type TEXT, transit_size NUMERIC, transit_time NUMERIC,"
    " bandwidth NUMERIC, step TEXT, type TEXT, op_name TEXT);"
    "INSERT INTO CommAnalyzerMatrix VALUES"
    " ('allreduce-top1','77','0','1','HCCS',64,4,16,'step1','collective','hcom_allReduce__303_0_1')"
    ","
    " ('allreduce-total','77','0','1','HCCS',64,4,16,'step1','collective','');";

constexpr const char* kRecord =
    "CREATE TABLE STRING_IDS(id INTEGER PRIMARY KEY, value TEXT);"
    "INSERT INTO STRING_IDS VALUES(1,'MatMulV3'),(2,'AI_CORE'),(3,'hcom_allGather__5_0_1'),"
    " (4,'77');"
    "CREATE TABLE TASK(startNs INTEGER, endNs INTEGER, deviceId INTEGER, connectionId INTEGER,"
    " globalTaskId INTEGER, globalPid INTEGER, taskType INTEGER, contextId INTEGER,"
    " streamId INTEGER, taskId INTEGER, modelId INTEGER);"
    "INSERT INTO TASK VALUES(1000,3000,0,0,10,0,2,0,0,0,0),(4000,9000,0,0,11,0,2,0,0,0,0),"
    " (9000,9100,0,0,12,0,2,0,0,0,0);"
    "CREATE TABLE COMPUTE_TASK_INFO(name INTEGER, globalTaskId INTEGER PRIMARY KEY,"
    " blockDim INTEGER, mixBlockDim INTEGER, taskType INTEGER, opType INTEGER);"
    "INSERT INTO COMPUTE_TASK_INFO VALUES(0,10,1,0,2,1),(0,11,1,0,2,1);"
    "CREATE TABLE COMMUNICATION_OP(opName INTEGER, startNs INTEGER, endNs INTEGER,"
    " connectionId INTEGER, groupName INTEGER, opId INTEGER);"
    "INSERT INTO COMMUNICATION_OP VALUES(3,0,2000000,0,4,0);";

std::string output(const TestFolder& folder, const std::string& name) {
  return folder.file("prof/host_1_ascend_pt/ASCEND_PROFILER_OUTPUT/" + name);
}

TEST(ProfileDatabase, SaysWhatTheOtherFilesSay) {
  const TestFolder folder;
  write_database(output(folder, "analysis.db"), kAnalysis);
  write_database(output(folder, "ascend_pytorch_profiler_3.db"), kRecord);
  const Profile profile = read_profile({folder.file("prof")});
  ASSERT_EQ(profile.ranks.size(), 1U);
  EXPECT_TRUE(profile.notes.empty()) << profile.notes.front();
  const RankProfile& rank = profile.ranks.front();
  EXPECT_EQ(rank.rank, 3);
  EXPECT_EQ(rank.steps, 2) << "the first warms up";
  EXPECT_EQ(rank.split.computing, 46000);
  EXPECT_EQ(rank.split.exposed, 10500);
  EXPECT_EQ(rank.split.bubble, 2000);
  EXPECT_EQ(rank.split.stage, 58000);
  EXPECT_EQ(rank.slowest_step_us, 58000);
  ASSERT_EQ(rank.collectives.size(), 1U) << "the analysis comes before the record";
  const CollectiveTotal& all_reduce = rank.collectives.at({"hcom_allReduce", "77"});
  EXPECT_EQ(all_reduce.count, 2);
  EXPECT_EQ(all_reduce.elapse_ms, 7) << "a step";
  EXPECT_EQ(all_reduce.wait_ms, 2);
  EXPECT_EQ(all_reduce.size_mb, 64) << "once, though its packets have two sizes";
  ASSERT_EQ(rank.links.size(), 1U);
  EXPECT_EQ(rank.links.at({0, 1}).gb_per_s(), 16);
  ASSERT_EQ(rank.operators.size(), 1U) << "task 12 computes nothing";
  const OperatorTotal& product = rank.operators.at("MatMulV3");
  EXPECT_EQ(product.core, "AI_CORE");
  EXPECT_EQ(product.count, 2);
  EXPECT_DOUBLE_EQ(product.total_us, 7);
  EXPECT_DOUBLE_EQ(product.max_us, 5);
}

TEST(ProfileDatabase, OfTheRecordAloneCollectivesHaveATime) {
  const TestFolder folder;
  write_database(folder.file("PROF_1/msprof_2026.db"), kRecord);
  const Profile profile = read_profile({folder.file("PROF_1")});
  ASSERT_EQ(profile.ranks.size(), 1U);
  EXPECT_EQ(profile.ranks.front().steps, 0);
  EXPECT_DOUBLE_EQ(profile.ranks.front().collectives.at({"hcom_allGather", "77"}).elapse_ms, 2);
  const std::string text = profile_text(profile, analyse(profile));
  EXPECT_NE(text.find("1 rank, steps unknown"), std::string::npos) << text;
  EXPECT_NE(text.find("no advice: these files do not say how long a step is"), std::string::npos);
}

TEST(ProfileDatabase, NothingIsCountedTwice) {
  const TestFolder folder;
  write_database(output(folder, "analysis.db"), kAnalysis);
  write_database(output(folder, "ascend_pytorch_profiler_0.db"), kRecord);
  write_file_atomic(output(folder, "kernel_details.csv"),
                    "Name,Type,Accelerator Core,Duration(us)\nx,Add,AI_VECTOR_CORE,10\n");
  write_file_atomic(output(folder, "step_trace_time.csv"),
                    "Step,Computing,Communication(Not Overlapped),Overlapped,Free\n0,100,0,0,0\n");
  const Profile profile = read_profile({folder.file("prof")});
  EXPECT_EQ(profile.ranks.front().split.computing, 100);
  ASSERT_EQ(profile.ranks.front().operators.size(), 1U);
  EXPECT_TRUE(profile.ranks.front().operators.contains("Add"));
}

TEST(ProfileDatabase, AMissingColumnIsNamed) {
  const TestFolder folder;
  write_database(folder.file("analysis.db"),
                 "CREATE TABLE StepTraceTime(computing, free);"
                 "INSERT INTO StepTraceTime VALUES(5, 6);");
  const Profile profile = read_profile({folder.file("analysis.db")});
  EXPECT_EQ(profile.ranks.front().split.stage, 11);
  ASSERT_FALSE(profile.notes.empty());
  EXPECT_NE(
      profile.notes.front().find("StepTraceTime has no column 'communication_not_overlapped'"),
      std::string::npos)
      << profile.notes.front();
}

TEST(ProfileDatabase, AViewIsNotRun) {
  const TestFolder folder;
  write_database(folder.file("analysis.db"),
                 "CREATE VIEW StepTraceTime AS WITH RECURSIVE n(computing) AS (SELECT 1 UNION ALL "
                 "SELECT computing + 1 FROM n) SELECT computing FROM n;");
  EXPECT_THROW(read_profile({folder.file("analysis.db")}), Error);
}

TEST(ProfileDatabase, DamageIsANoteOrAnError) {
  const TestFolder folder;
  const std::string path = folder.file("analysis.db");
  write_database(path, std::string(kAnalysis) + kRecord);
  const std::string whole = read_file(path);
  size_t readable = 0;
  for (size_t at = 0; at < whole.size(); at += 997) {
    std::string flipped = whole;
    for (size_t i = at; i < std::min(at + 64, whole.size()); ++i) {
      flipped[i] = static_cast<char>(~flipped[i]);
    }
    for (const std::string& text : {whole.substr(0, at), flipped}) {
      write_file_atomic(path, text);
      try {
        Profile profile = read_profile({path});
        readable += profile.ranks.size();
        analyse(profile);
      } catch (const Error& error) {
        EXPECT_EQ(exit_code(error.code()), 2) << error.message();
      }
    }
  }
  EXPECT_GT(readable, 0U);
  EXPECT_FALSE(fs::exists(path + "-journal") || fs::exists(path + "-wal"));
}

}  // namespace
}  // namespace plait
