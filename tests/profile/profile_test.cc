#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "base/file.h"
#include "base/json_full.h"
#include "profile/analysis.h"
#include "support/test_files.h"

namespace plait {
namespace {

namespace fs = std::filesystem;

constexpr const char* kStepHeader =
    "Device_id,Step,Computing,Communication(Not Overlapped),Overlapped,Communication,Free,Stage,"
    "Bubble,Communication(Not Overlapped and Exclude Receive),Preparing\n";

// A folder of ranks as torch_npu writes it.
class Ranks {
 public:
  explicit Ranks(const TestFolder& folder) : folder_(folder.file("prof")) {}

  std::string output(int rank) const {
    return folder_ + "/host_" + std::to_string(100 + rank) + "_ascend_pt/ASCEND_PROFILER_OUTPUT";
  }
  void write(int rank, const std::string& name, const std::string& text) const {
    fs::create_directories(output(rank));
    write_file_atomic(output(rank) + "/" + name, text);
    write_file_atomic(output(rank) + "/../profiler_info_" + std::to_string(rank) + ".json", "{}");
  }
  // Steps in ms: computing, exposed, overlapped, free; the first step is slow.
  void steps(int rank, double computing, double exposed, double overlapped, double free,
             double bubble = 0) const {
    std::string text = kStepHeader;
    for (const double factor : {3.0, 1.0, 1.0}) {
      text += fmt::format("{},0,{},{},{},{},{},{},{},{},0\n", rank, factor * computing * 1e3,
                          factor * exposed * 1e3, factor * overlapped * 1e3,
                          factor * (exposed + overlapped) * 1e3, factor * free * 1e3,
                          factor * (computing + exposed + free) * 1e3, factor * bubble * 1e3,
                          factor * (exposed - bubble) * 1e3);
    }
    write(rank, "step_trace_time.csv", text);
  }
  const std::string& folder() const { return folder_; }

 private:
  std::string folder_;
};

TEST(Profile, TheStepIsSplitAndAdviceIsInMilliseconds) {
  const TestFolder folder;
  const Ranks ranks(folder);
  ranks.steps(0, 46, 10.5, 4.5, 1.5);
  const Profile profile = read_profile({ranks.folder()});
  ASSERT_EQ(profile.ranks.size(), 1u);
  EXPECT_EQ(profile.ranks.front().steps, 2);
  const Analysis analysis = analyse(profile);
  EXPECT_NEAR(analysis.mean.stage, 58e3, 1);
  EXPECT_NEAR(analysis.mean.computing, 46e3, 1);
  EXPECT_NEAR(analysis.mean.exposed, 10.5e3, 1);
  // 15 of 58 ms, 70 % exposed: hiding all but the last of 8 buckets saves about 9 ms.
  ASSERT_FALSE(analysis.advice.empty());
  EXPECT_NEAR(analysis.advice.front().gain_ms, 9.19, 0.01);
  const std::string text = profile_text(profile, analysis);
  EXPECT_NE(text.find("communication is 15.0 of 58.0 ms and 70 % exposed"), std::string::npos)
      << text;
}

TEST(Profile, TheSlowRankIsNamed) {
  const TestFolder folder;
  const Ranks ranks(folder);
  for (int rank = 0; rank < 8; ++rank) {
    ranks.steps(rank, rank == 5 ? 60 : 40, rank == 5 ? 1 : 21, 4, 0.5);
  }
  const Profile profile = read_profile({ranks.folder()});
  ASSERT_EQ(profile.ranks.size(), 8u);
  const Analysis analysis = analyse(profile);
  EXPECT_EQ(analysis.computing.most_rank, 5);
  EXPECT_EQ(analysis.advice.front().title, "rank 5 computes longer than the others");
  EXPECT_NEAR(analysis.advice.front().gain_ms, 20, 0.01);
}

TEST(Profile, BubbleAndIdleTime) {
  const TestFolder folder;
  const Ranks ranks(folder);
  ranks.steps(0, 50, 30, 0, 20, 24);
  ranks.write(0, "kernel_details.csv",
              "Step Id,Name,Type,Accelerator Core,Start Time(us),Duration(us)\n"
              "1,a,MatMulV3,AI_CORE,1,10\n1,\"b,c\",Add,AI_VECTOR_CORE,2,5\n"
              "1,d,Unique,AI_CPU,3,5\n1,torn");
  const Profile profile = read_profile({ranks.folder()});
  const Analysis analysis = analyse(profile);
  std::string titles;
  for (const Advice& advice : analysis.advice) {
    titles += advice.title + "\n";
  }
  EXPECT_NE(titles.find("bubble"), std::string::npos) << titles;
  EXPECT_NE(titles.find("waits for the host"), std::string::npos) << titles;
  EXPECT_NE(titles.find("AI CPU"), std::string::npos) << titles;
  ASSERT_EQ(analysis.operators.size(), 3u);
  EXPECT_EQ(analysis.operators.front().type, "MatMulV3");
  EXPECT_NEAR(analysis.operators.front().share, 0.5, 1e-9);
  ASSERT_EQ(profile.notes.size(), 1u);
  EXPECT_NE(profile.notes.front().find("1 rows of another width"), std::string::npos);
}

TEST(Profile, CollectivesAndLinks) {
  const TestFolder folder;
  const Ranks ranks(folder);
  ranks.steps(0, 40, 20, 5, 0);
  std::string matrix, separator;
  for (int a = 0; a < 4; ++a) {
    for (int b = 0; b < 4; ++b) {
      if (a != b) {
        const double ms = a == 2 && b == 3 ? 40 : 10;
        matrix += fmt::format(
            "{}\"{}-{}\": {{\"Transport Type\": \"HCCS\", \"Transit Size(MB)\": 200, \"Transit "
            "Time(ms)\": {}, \"Bandwidth(GB/s)\": {}}}",
            separator, a, b, ms, 200 / ms);
        separator = ", ";
      }
    }
  }
  ranks.write(0, "communication_matrix.json",
              "{\"step0\": {\"collective\": {\"hcom_allReduce_-top1@1\": {" + matrix +
                  "}, \"hcom_allReduce_-total@1\": {" + matrix + "}}}}");
  ranks.write(0, "communication.json",
              R"json({"step0": {"p2p": {}, "collective": {"hcom_allReduce__123_0_1@77": {
      "Communication Time Info": {"Start Timestamp(us)": 1.5, "Elapse Time(ms)": 20,
        "Transit Time(ms)": 4, "Wait Time(ms)": 15, "Wait Time Ratio": 0.79},
      "Communication Bandwidth Info": {"HCCS": {"Transit Size(MB)": 12, "Transit Time(ms)": 4,
        "Size Distribution": {"2": [3, 4]}}}},
      "Total Op Info": {"Communication Time Info": {"Elapse Time(ms)": 20}}}}})json");
  const Profile profile = read_profile({ranks.folder()});
  const auto& collectives = profile.ranks.front().collectives;
  ASSERT_EQ(collectives.size(), 1u);
  EXPECT_EQ(collectives.begin()->first,
            std::make_pair(std::string("hcom_allReduce"), std::string("77")));
  EXPECT_EQ(collectives.begin()->second.count, 1);
  EXPECT_DOUBLE_EQ(collectives.begin()->second.wait_ms, 15);
  EXPECT_DOUBLE_EQ(collectives.begin()->second.size_mb, 12);
  const Analysis analysis = analyse(profile);
  ASSERT_EQ(analysis.slow_links.size(), 1u);
  EXPECT_EQ(analysis.slow_links.front().source, 2);
  EXPECT_EQ(analysis.slow_links.front().destination, 3);
  EXPECT_NEAR(analysis.slow_links.front().gb_per_s, 5, 1e-9);
  EXPECT_NEAR(analysis.slow_links.front().typical, 20, 1e-9);
  EXPECT_EQ(profile_text(profile, analysis).find("-total"), std::string::npos);
}

TEST(Profile, MsprofAndClusterFiles) {
  const TestFolder folder;
  const std::string base = folder.file("PROF_000001_2026_AB");
  const std::string output = base + "/mindstudio_profiler_output";
  fs::create_directories(output);
  write_file_atomic(output + "/op_summary_20260101.csv",
                    "\xef\xbb\xbf"
                    "Device_id,Model Name,Op Name,OP Type,Task Type,Task Duration(us)\r\n"
                    "0,N/A,x,MatMulV2,AI_CORE,12.5\r\n0,N/A,y,MatMulV2,AI_CORE,N/A\r\n");
  write_file_atomic(
      folder.file("cluster_step_trace_time.csv"),
      "Step,Type,Index,Computing,Communication(Not Overlapped),Overlapped,"
      "Communication,Free,Stage,Bubble\n"
      "1,rank,0,10,2,1,3,0,12,0\n1,rank,1,20,1,1,2,0,21,0\n1,stage,0,10,2,1,3,0,12,0\n");
  const Profile profile = read_profile({folder.file("")});
  ASSERT_EQ(profile.ranks.size(), 2u);
  EXPECT_EQ(profile.ranks[0].operators.at("MatMulV2").count, 2);
  EXPECT_DOUBLE_EQ(profile.ranks[0].operators.at("MatMulV2").total_us, 12.5);
  EXPECT_DOUBLE_EQ(profile.ranks[1].split.computing, 20);
}

TEST(Profile, TraceViewWithoutStepTrace) {
  const TestFolder folder;
  const Ranks ranks(folder);
  ranks.write(3, "trace_view.json", R"json([
    {"ph": "M", "name": "process_name", "pid": 1, "tid": 0, "args": {"name": "Overlap Analysis"}},
    {"ph": "M", "name": "process_labels", "pid": 1, "args": {"labels": "NPU 3"}},
    {"ph": "X", "name": "ProfilerStep#1", "pid": 9, "tid": 1, "ts": "100.5", "dur": 50},
    {"ph": "X", "name": "Computing", "pid": 1, "tid": 1, "ts": "100.5", "dur": 30.5},
    {"ph": "X", "name": "Computing", "pid": 1, "tid": 1, "ts": "131", "dur": 9.5},
    {"ph": "X", "name": "Communication", "pid": 1, "tid": 2, "ts": "131", "dur": 12},
    {"ph": "X", "name": "Communication(Not Overlapped)", "pid": 1, "tid": 3, "ts": 141, "dur": 7},
    {"ph": "X", "name": "Free", "pid": 1, "tid": 4, "ts": "148", "dur": 3, "args": {}},)json");
  const Profile profile = read_profile({ranks.folder()});
  ASSERT_EQ(profile.ranks.size(), 1u);
  EXPECT_EQ(profile.ranks[0].rank, 3);
  EXPECT_DOUBLE_EQ(profile.ranks[0].split.computing, 40);
  EXPECT_DOUBLE_EQ(profile.ranks[0].split.exposed, 7);
  EXPECT_DOUBLE_EQ(profile.ranks[0].split.overlapped, 5);
  EXPECT_DOUBLE_EQ(profile.ranks[0].split.free, 3);
  // It is cut off.
  ASSERT_EQ(profile.notes.size(), 1u);
  EXPECT_NE(profile.notes[0].find("no JSON from byte"), std::string::npos);
}

TEST(Profile, MissingColumnsAreNamed) {
  const TestFolder folder;
  const Ranks ranks(folder);
  ranks.write(0, "step_trace_time.csv", "Step,Computing,Free\n1,10,2\n");
  ranks.write(0, "kernel_details.csv", "Name,Start\nx,1\n");
  const Profile profile = read_profile({ranks.folder()});
  EXPECT_DOUBLE_EQ(profile.ranks[0].split.stage, 12);
  std::string notes;
  for (const std::string& note : profile.notes) {
    notes += note + "\n";
  }
  EXPECT_NE(notes.find("'Communication(Not Overlapped)'"), std::string::npos) << notes;
  EXPECT_NE(notes.find("'Type'"), std::string::npos) << notes;
}

TEST(Profile, BadInput) {
  const TestFolder folder;
  EXPECT_THROW(read_profile({folder.file("nothing")}), Error);
  EXPECT_THROW(read_profile({folder.file("")}), Error);
  // Noise, a lone quote, an endless line, a loop of links.
  std::string noise;
  for (int i = 0; i < 100000; ++i) {
    noise += static_cast<char>(i * 7919 % 256);
  }
  for (const std::string& text :
       {noise, std::string("\""), "a,b\n\"" + std::string(3 << 20, 'x'), std::string()}) {
    write_file_atomic(folder.file("step_trace_time.csv"), text);
    write_file_atomic(folder.file("communication.json"), text);
    write_file_atomic(folder.file("trace_view.json"), text + std::string(500, '['));
    try {
      analyse(read_profile({folder.file("")}));
    } catch (const Error& error) {
      EXPECT_EQ(exit_code(error.code()), 2);
    }
  }
  fs::create_directory_symlink(folder.file(""), folder.file("loop"));
  EXPECT_THROW(read_profile({folder.file("")}), Error);
}

TEST(Profile, TerminalEscapesDoNotPass) {
  const TestFolder folder;
  const Ranks ranks(folder);
  ranks.steps(0, 40, 20, 5, 0);
  ranks.write(0, "kernel_details.csv",
              "Name,Type,Accelerator Core,Duration(us)\nx,\x1b[31mRed,AI_CPU,10\n");
  const Profile profile = read_profile({ranks.folder()});
  EXPECT_EQ(profile_text(profile, analyse(profile)).find('\x1b'), std::string::npos);
}

TEST(Profile, DiffNamesWhatChanged) {
  const TestFolder folder;
  const Ranks ranks(folder);
  ranks.steps(0, 40, 20, 5, 0);
  const Analysis before = analyse(read_profile({ranks.folder()}));
  ranks.steps(0, 40, 8, 17, 0);
  const Analysis after = analyse(read_profile({ranks.folder()}));
  const std::string text = diff_text(before, after);
  EXPECT_NE(text.find("step 60.0 -> 48.0 ms (-12.0 ms, -20.0 %)"), std::string::npos) << text;
  const Json json = parse_json(diff_json(before, after), "diff");
  EXPECT_NEAR(json.at("changes").at(0).at("change_ms").get<double>(), -12, 1e-6);
}

}  // namespace
}  // namespace plait
