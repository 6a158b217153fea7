// plait doctor collect and selftest as people start them: alone, over (a stand-in of) ssh, under
// mpirun.
#include <sys/stat.h>

#include <cstdlib>
#include <fstream>

#include "base/json_full.h"
#include "cli/program.h"

namespace plait {
namespace {

const char* const kFault =
    "EJ0001: [PID: 9] 2024-05-21-11:57:54.167.645 Failed to initialize the HCCP process.\n";

class Doctor : public testing::Test {
 public:
  Doctor(const Doctor&) = delete;
  Doctor& operator=(const Doctor&) = delete;
  ~Doctor() override { setenv("PATH", path_.c_str(), 1); }

 protected:
  Doctor() : path_(std::getenv("PATH")) {
    std::filesystem::create_directories(folder_.file("bin"));
    std::filesystem::create_directories(folder_.file("logs"));
    std::ofstream(folder_.file("logs/plog-9_1.log")) << kFault << "api_key=abcdefgh\n";
    setenv("PATH", (folder_.file("bin") + ":" + path_).c_str(), 1);
    setenv("HOME", folder_.file("home").c_str(), 1);
  }

  void add_script(const std::string& name, const std::string& text) const {
    const std::string path = folder_.file("bin/" + name);
    std::ofstream(path) << "#!/bin/sh\n" << text;
    ASSERT_EQ(chmod(path.c_str(), 0700), 0);
  }
  // doctor logs --json of the archive that was made.
  Json diagnosis() const {
    const Result result = run_plait({"doctor", "logs", bundle(), "--json"});
    EXPECT_EQ(result.status, 0) << result.err;
    return parse_json(result.out, "stdout");
  }
  std::string bundle() const { return folder_.file("bundle.tar.gz"); }

  TestFolder folder_;
  std::string path_;
};

TEST_F(Doctor, CollectsThisHost) {
  const Result result =
      run_plait({"doctor", "collect", folder_.file("logs"), "-o", bundle(), "--json"});
  ASSERT_EQ(result.status, 0) << result.err;
  const Json json = parse_json(result.out, "stdout");
  EXPECT_EQ(json["hosts"], 1);
  EXPECT_GE(json["removed"]["token"], 1);
  const Json found = diagnosis();
  EXPECT_EQ(found["class"], "residual-process");
  EXPECT_FALSE(found["guilty"]["host"].is_null());
  EXPECT_EQ(run_plait({"doctor", "collect", folder_.file("absent"), "-o", bundle()}).status, 2);
}

TEST_F(Doctor, CollectsOverSsh) {
  // "h1" is an hour ahead, "down" cannot be reached. Options come before --, then host and command.
  add_script("ssh",
             "while [ \"$1\" != -- ]; do shift; done\n"
             "host=$2; command=$3\n"
             "if [ $host = down ]; then echo 'ssh: no route to host' >&2; exit 255; fi\n"
             "case \"$command\" in date*) [ $host = h1 ] && exec date -d '+1 hour' +%s.%N;; esac\n"
             "exec sh -c \"$command\"\n");
  const Result result =
      run_plait({"doctor", "collect", "--hosts", "h0,h1,down", folder_.file("logs"),
                 "--remote-plait", plait_path(), "--no-state", "-o", bundle(), "--json"});
  EXPECT_EQ(result.status, 1) << result.err;
  const Json json = parse_json(result.out, "stdout");
  EXPECT_EQ(json["hosts"], 3);
  ASSERT_EQ(json["problems"].size(), 1U);
  EXPECT_NE(json["problems"][0].get<std::string>().find("no route to host"), std::string::npos);
  const Json found = diagnosis();
  EXPECT_EQ(found["class"], "residual-process");
  EXPECT_EQ(found["guilty"]["host"], "h1");
  EXPECT_NE(found["notes"].dump().find("host h1 was +3600"), std::string::npos) << found["notes"];
}

TEST_F(Doctor, CollectsAnMpiJob) {
  if (run_program({"sh", "-c", "command -v mpirun"}).status != 0) {
    GTEST_SKIP() << "no mpirun";
  }
  setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
  setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
  const Result result =
      run_program({"mpirun", "-n", "3", "--oversubscribe", plait_path(), "doctor", "collect",
                   folder_.file("logs"), "--no-state", "-o", bundle(), "--json"});
  ASSERT_EQ(result.status, 0) << result.out << result.err;
  EXPECT_EQ(parse_json(result.out, "stdout")["hosts"], 1);
  EXPECT_EQ(diagnosis()["class"], "residual-process");
}

TEST_F(Doctor, SelftestStopsAtTheRungThatFails) {
  add_script("mpirun", "echo 'no such interface'; exit 3\n");
  const Result result = run_plait({"doctor", "selftest", "--ranks", "2"});
  EXPECT_EQ(result.status, 1);
  EXPECT_EQ(count_of(result.out, "passed "), 4) << result.out;
  EXPECT_NE(result.out.find("failed   two processes over MPI (exit status 3)"), std::string::npos);
  EXPECT_NE(result.out.find("no such interface"), std::string::npos);
  EXPECT_NE(result.out.find("What it proves: the MPI of this host"), std::string::npos);
  EXPECT_EQ(count_of(result.out, "NPU"), 0);
}

TEST_F(Doctor, SelftestIsNoTestOfSpeedButOfData) {
  add_script("mpirun", "echo 'rank 1: late_rank'; exit 1\n");
  Result result = run_plait({"doctor", "selftest", "--ranks", "2"});
  EXPECT_EQ(result.status, 0) << result.out;
  EXPECT_NE(result.out.find("two processes over MPI (but rank 1: late_rank)"), std::string::npos);
  add_script("mpirun", "echo 'rank 1: late_rank'; echo 'rank 1: wrong_data'; exit 1\n");
  result = run_plait({"doctor", "selftest", "--ranks", "2"});
  EXPECT_EQ(result.status, 1);
  EXPECT_NE(result.out.find("failed   two processes over MPI"), std::string::npos) << result.out;
}

TEST_F(Doctor, SelftestTrainsATinyModelUnderTheLayoutOfTheJob) {
  add_script("mpirun", "exit 0\n");
  Result result = run_plait(
      {"doctor", "selftest", "--ranks", "2", "--layout", "dp2.tp2.pp2.vpp2.sp.zero1", "--json"});
  ASSERT_EQ(result.status, 0) << result.out << result.err;
  Json answer = parse_json(result.out, "stdout");
  EXPECT_EQ(answer.at("rungs").back().at("rung"), "the layout with a tiny model");
  EXPECT_EQ(answer.at("rungs").back().at("result"), "passed");
  // The rung of the layout under a launcher whose job computes something else.
  add_script("mpirun", "case \"$*\" in *train*) echo '\"last_loss\": 9.5,';; esac\n");
  result = run_plait(
      {"doctor", "selftest", "--ranks", "2", "--layout", "tp2", "--hosts", "h0,h1", "--json"});
  EXPECT_EQ(result.status, 1) << result.out;
  answer = parse_json(result.out, "stdout");
  EXPECT_EQ(answer.at("rungs").back().at("result"), "failed");
  EXPECT_NE(answer.at("rungs").back().at("note").get<std::string>().find("9.5"), std::string::npos);
  EXPECT_EQ(run_plait({"doctor", "selftest", "--layout", "tp0"}).status, 2);
}

TEST_F(Doctor, SelftestSkipsWhatIsNotThere) {
  setenv("PATH", folder_.file("bin").c_str(), 1);
  const Result result = run_plait({"doctor", "selftest", "--ranks", "2"});
  EXPECT_EQ(result.status, 0) << result.out;
  EXPECT_NE(result.out.find("skipped  two processes over MPI: mpirun is not on PATH"),
            std::string::npos);
  EXPECT_NE(result.out.find("skipped  one NPU computes"), std::string::npos);
}

}  // namespace
}  // namespace plait
