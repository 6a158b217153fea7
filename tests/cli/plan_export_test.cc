// plait plan export as a user runs it: the files are written, and what they start is what was asked
// for.
#include <filesystem>
#include <fstream>

#include "base/file.h"
#include "cli/program.h"

namespace plait {
namespace {

class PlanExport : public testing::Test {
 protected:
  std::string file(const std::string& name) const { return folder_.file(name); }
  std::vector<std::string> command(const std::string& kind,
                                   const std::vector<std::string>& more) const {
    std::vector<std::string> args = {
        "plan",      "export", "--to",           kind, "--model", file("config.json"),
        "--cluster", "cpu",    "--global-batch", "8",  "--seq",   "16",
        "--name",    "a-job"};
    args.insert(args.end(), more.begin(), more.end());
    return args;
  }
  // A program of that name in PATH which prints its arguments, one a line.
  std::string path_with(const std::string& program) const {
    const std::string bin = file("bin");
    std::filesystem::create_directory(bin);
    std::ofstream(bin + "/" + program) << "#!/bin/sh\nprintf '%s\\n' \"$@\"\n";
    std::filesystem::permissions(bin + "/" + program, std::filesystem::perms::owner_all);
    return "PATH=" + bin + ":/usr/bin:/bin";
  }
  TrainFolder folder_;
};

TEST_F(PlanExport, ThePlaitScriptTrains) {
  const Result written = run_plait(command("plait", {"--layout", "tp2.sp", "--dtype", "fp32",
                                                     "--stack", "plait", "--out", file("job")}));
  ASSERT_EQ(written.status, 0) << written.err;
  EXPECT_EQ(written.out, file("job") + "/a-job.sh\n" + file("job") + "/a-job.toml\n" + file("job") +
                             "/config.json\n");
  const std::string bin = std::filesystem::path(plait_path()).parent_path();
  const Result trained =
      run_program({"env", "PATH=" + bin + ":/usr/bin:/bin", "DATA_PATH=" + file("text"),
                   "TRAIN_ITERS=2", "SAVE_DIR=" + file("run"), file("job") + "/a-job.sh"});
  EXPECT_EQ(trained.status, 0) << trained.err;
  EXPECT_TRUE(std::filesystem::exists(file("run") + "/metrics.jsonl"));
}

TEST_F(PlanExport, TheMegatronScriptStartsItsProgram) {
  const Result written =
      run_plait(command("megatron", {"--layout", "tp2.sp", "--out", file("job")}));
  ASSERT_EQ(written.status, 0) << written.err;
  const std::string script = file("job") + "/a-job.sh";
  const std::vector<std::string> start = {"env", "-i", path_with("torchrun")};
  std::vector<std::string> bare = start;
  bare.insert(bare.end(), {"bash", script});
  const Result unset = run_program(bare);
  EXPECT_NE(unset.status, 0);
  EXPECT_NE(unset.err.find("MEGATRON_PATH"), std::string::npos) << unset.err;
  EXPECT_EQ(unset.out, "");
  std::vector<std::string> full = start;
  full.insert(full.end(), {"MEGATRON_PATH=" + file(""), "DATA_PATH=/d d/x", "TOKENIZER_PATH=/t",
                           "LOAD_DIR=/old", "bash", script});
  const Result started = run_program(full);
  ASSERT_EQ(started.status, 0) << started.err;
  for (const char* part : {"pretrain_gpt.py\n", "--nproc_per_node\n2\n", "--data-path\n/d d/x\n",
                           "--tensor-model-parallel-size\n2\n", "--load\n/old\n"}) {
    EXPECT_NE(started.out.find(part), std::string::npos) << part << started.out;
  }
}

TEST_F(PlanExport, NothingIsOverwritten) {
  const std::vector<std::string> args =
      command("deepspeed", {"--layout", "dp2.zero1", "--out", file("job")});
  ASSERT_EQ(run_plait(args).status, 0);
  std::filesystem::remove(file("job") + "/a-job.sh");
  const Result again = run_plait(args);
  EXPECT_EQ(again.status, 2);
  EXPECT_NE(again.err.find("ds_config.json exists; --force overwrites it"), std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(file("job") + "/a-job.sh"));
  std::vector<std::string> forced = args;
  forced.emplace_back("--force");
  EXPECT_EQ(run_plait(forced).status, 0);
}

TEST_F(PlanExport, StandardOutputTakesOneFile) {
  const Result one = run_plait(command("megatron", {"--layout", "tp2"}));
  EXPECT_EQ(one.status, 0) << one.err;
  EXPECT_EQ(one.out.find("#!/usr/bin/env bash\n"), 0u);
  const Result several = run_plait(command("deepspeed", {"--layout", "dp2"}));
  EXPECT_EQ(several.status, 2);
  EXPECT_NE(several.err.find("--file NAME"), std::string::npos);
  const Result chosen =
      run_plait(command("deepspeed", {"--layout", "dp2", "--file", "ds_config.json"}));
  EXPECT_EQ(chosen.out.find('{'), 0u);
}

TEST_F(PlanExport, PagesAreWritten) {
  for (const bool search : {false, true}) {
    std::vector<std::string> args = {"plan"};
    if (!search) {
      args.emplace_back("estimate");
    }
    args.insert(args.end(), {"--model", file("config.json"), "--cluster", "cpu", "--devices", "2",
                             "--global-batch", "8", "--seq", "16", "--html", file("page.html")});
    if (!search) {
      args.insert(args.end(), {"--layout", "tp2"});
    }
    const Result result = run_plait(args);
    EXPECT_EQ(result.status, 0) << result.err;
    const std::string page = read_file(file("page.html"));
    EXPECT_EQ(page.find("<!DOCTYPE html>"), 0u);
    EXPECT_EQ(page.find("<svg class=\"scatter\"") != std::string::npos, search);
    std::filesystem::remove(file("page.html"));
  }
}

TEST_F(PlanExport, BadRequests) {
  for (const std::vector<std::string>& more : std::vector<std::vector<std::string>>{
           {"--layout", "tp2", "--name", "../x"}, {"--layout", ""}, {"--layout", "tp3"}}) {
    const Result result = run_plait(command("megatron", more));
    EXPECT_EQ(result.status, 2) << result.out;
    EXPECT_EQ(result.out, "");
  }
  EXPECT_EQ(run_plait(command("horovod", {"--layout", "tp2"})).status, 2);
}

}  // namespace
}  // namespace plait
