// Signals, numbers that are not finite, and full disks, as a user of plait train meets them.
#include <signal.h>
#include <sys/mount.h>

#include <cmath>
#include <cstring>
#include <fstream>

#include "base/file.h"
#include "base/json_full.h"
#include "cli/program.h"

namespace plait {
namespace {

constexpr double kGraceS = 60;

class Signals : public testing::Test {
 protected:
  // A run of some steps on 4 ranks into `out`.
  std::vector<std::string> command(const std::string& out,
                                   const std::vector<std::string>& more = {}) const {
    std::vector<std::string> args =
        folder_.train({"--layout", "dp2.tp2.sp.zero1", "--steps", "150", "--lr-decay", "cosine",
                       "--warmup-steps", "10", "--out", file(out), "--grace", "60"});
    args.insert(args.begin(), plait_path());
    args.insert(args.end(), more.begin(), more.end());
    return args;
  }
  std::string file(const std::string& name) const { return folder_.file(name); }
  TrainFolder folder_;
};

void expect_same_losses(const std::string& expected, const std::string& actual) {
  const std::vector<MetricsLine> a = read_metrics(expected);
  const std::vector<MetricsLine> b = read_metrics(actual);
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i].step, static_cast<int64_t>(i) + 1);
    EXPECT_EQ(b[i].step, a[i].step);
    EXPECT_EQ(b[i].loss, a[i].loss) << "step " << a[i].step;
  }
}

TEST_F(Signals, StopAfterACheckpointAndGoOnAsIfNothingHadHappened) {
  ASSERT_EQ(run_program(command("whole")).status, 0);
  const std::string metrics = file("parts/metrics.jsonl");
  int64_t last_step = 0;
  for (const int signal : {SIGTERM, SIGINT}) {
    SCOPED_TRACE(strsignal(signal));
    std::vector<std::string> args = command("parts");
    if (last_step > 0) {
      args.emplace_back("--resume");
    }
    Program program(args);
    ASSERT_TRUE(await_metrics(program, metrics, static_cast<size_t>(last_step) + 3));
    kill(program.pid(), signal);
    EXPECT_EQ(program.await_end(kGraceS), 0) << program.err();
    EXPECT_NE(program.out().find("stopped by a signal"), std::string::npos) << program.out();
    EXPECT_NE(program.err().find("saving a checkpoint and stopping"), std::string::npos);
    const std::vector<MetricsLine> lines = read_metrics(metrics);
    ASSERT_GT(static_cast<int64_t>(lines.size()), last_step);
    last_step = lines.back().step;
    EXPECT_LT(last_step, 150);
    char name[64];
    std::snprintf(name, sizeof(name), "parts/checkpoints/step-%08d", static_cast<int>(last_step));
    EXPECT_TRUE(std::filesystem::exists(file(name))) << name;
  }
  ASSERT_EQ(run_program(command("parts", {"--resume"})).status, 0);
  expect_same_losses(file("whole/metrics.jsonl"), metrics);
}

TEST_F(Signals, AKilledRunGoesOnFromItsLastCheckpoint) {
  ASSERT_EQ(run_program(command("whole")).status, 0);
  {
    Program program(command("parts", {"--save-every", "10", "--async-save"}));
    ASSERT_TRUE(await_metrics(program, file("parts/metrics.jsonl"), 25));
    kill(program.pid(), SIGKILL);
    EXPECT_EQ(program.await_end(kGraceS), 128 + SIGKILL);
  }
  std::ofstream(file("parts/metrics.jsonl"), std::ios::app) << "{\"step\":9";  // cut short
  const Result result = run_program(command("parts", {"--resume"}));
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_NE(result.err.find("resuming after step"), std::string::npos) << result.err;
  expect_same_losses(file("whole/metrics.jsonl"), file("parts/metrics.jsonl"));
}

TEST_F(Signals, Usr1PrintsTheTableAndTheRunGoesOn) {
  Program program(command("run", {"--steps", "1000000"}));
  ASSERT_TRUE(await_metrics(program, file("run/metrics.jsonl"), 3));
  kill(program.pid(), SIGUSR1);
  EXPECT_TRUE(program.await_err("rank 3: ", kGraceS)) << program.err();
  for (int rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(count_of(program.err(), "rank " + std::to_string(rank) + ": "), 1) << program.err();
  }
  EXPECT_GT(count_of(program.err(), "sequence "), 0) << program.err();
  const size_t lines = read_metrics(file("run/metrics.jsonl")).size();
  EXPECT_TRUE(await_metrics(program, file("run/metrics.jsonl"), lines + 2)) << "it goes on";
  kill(program.pid(), SIGINT);
  EXPECT_EQ(program.await_end(kGraceS), 0) << program.err();
}

// A step that takes seconds leaves no time for a checkpoint.
TEST_F(Signals, ASecondOneOrTheEndOfTheGraceTimeEndsAtOnce) {
  const std::vector<std::string> slow = {
      "--global-batch-size", "16384", "--micro-batch-size", "64", "--layout", "dp2.tp2"};
  for (const bool second : {true, false}) {
    SCOPED_TRACE(second ? "second signal" : "grace time");
    const std::string out = second ? "second" : "grace";
    std::vector<std::string> args = command(out, slow);
    args.insert(args.end(), {"--grace", second ? "60" : "0.2"});
    Program program(args);
    for (int i = 0; i < 10000 && !std::filesystem::exists(file(out + "/metrics.jsonl")); ++i) {
      program.read_for(0.005);
    }
    kill(program.pid(), SIGTERM);
    EXPECT_TRUE(program.await_err("saving a checkpoint and stopping", kGraceS)) << program.err();
    if (second) {
      kill(program.pid(), SIGTERM);
    }
    EXPECT_EQ(program.await_end(kGraceS), 128 + SIGTERM) << program.err();
    EXPECT_EQ(count_of(program.err(), "the grace time is over"), second ? 0 : 1) << program.err();
    EXPECT_FALSE(std::filesystem::exists(file(out + "/checkpoints/step-00000001")));
  }
}

// Overwrites the first value of a tensor in a safetensors file.
void poison(const std::string& path, const std::string& tensor) {
  std::string bytes = read_file(path);
  uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, bytes.data(), 8);
  const Json header = parse_json(bytes.substr(8, header_bytes), path);
  const auto offset = header.at(tensor).at("data_offsets").at(0).get<size_t>();
  const float nan = std::nanf("");
  std::memcpy(bytes.data() + 8 + header_bytes + offset, &nan, sizeof(nan));
  std::ofstream(path, std::ios::binary) << bytes;
}

TEST_F(Signals, NotANumberNamesStepLayerAndRank) {
  std::filesystem::copy(std::string(std::getenv("PLAIT_TEST_DATA")) + "/goldens/tiny-qwen3",
                        file("hf"));
  poison(file("hf/model.safetensors"), "model.layers.2.mlp.down_proj.weight");
  std::ofstream rows(file("rows.jsonl"));
  for (int i = 0; i < 8; ++i) {
    rows << "{\"input_ids\": [1, 2, 3, 4, 5, 6]}\n";
  }
  rows.close();
  const auto train = [&](const std::string& layout) {
    return run_plait({"train", "--model", file("hf"), "--finetune", "--data", file("rows.jsonl"),
                      "--val-fraction", "0", "--seq-len", "16", "--layout", layout, "--steps", "3",
                      "--threads", "1", "--out", file(layout)});
  };
  for (const char* layout : {"dp1", "pp2", "tp2.pp2"}) {
    SCOPED_TRACE(layout);
    const Result result = train(layout);
    EXPECT_EQ(result.status, 1) << result.err;
    for (const char* part : {"step 1", "layer 2", "not finite"}) {
      EXPECT_NE(result.err.find(part), std::string::npos) << part << "\n" << result.err;
    }
    const char* rank = std::string(layout) == "dp1"   ? "rank 0"
                       : std::string(layout) == "pp2" ? "rank 1"
                                                      : "rank 2";
    EXPECT_NE(result.err.find(rank), std::string::npos) << rank << "\n" << result.err;
    EXPECT_FALSE(std::filesystem::exists(file(std::string(layout) + "/checkpoints/step-00000001")));
  }
}

TEST_F(Signals, FullDiskOfTheMetrics) {
  const Result result =
      run_program({plait_path(), "train", "--model", file("config.json"), "--data", file("text"),
                   "--seq-len", "16", "--steps", "5", "--metrics", "/dev/full"});
  EXPECT_EQ(result.status, 3) << result.err;
  EXPECT_NE(result.err.find("/dev/full"), std::string::npos) << result.err;
  EXPECT_NE(result.err.find("No space left"), std::string::npos) << result.err;
}

// A small file system; is_mounted() is false without the right to make one.
class SmallDisk {
 public:
  SmallDisk(std::string path, const std::string& size) : path_(std::move(path)) {
    std::filesystem::create_directory(path_);
    mounted_ = mount("tmpfs", path_.c_str(), "tmpfs", 0, ("size=" + size).c_str()) == 0;
  }
  ~SmallDisk() {
    if (mounted_) {
      umount2(path_.c_str(), MNT_DETACH);
    }
  }
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;
  bool is_mounted() const { return mounted_; }
  void grow(const std::string& size) {
    EXPECT_EQ(mount("tmpfs", path_.c_str(), "tmpfs", MS_REMOUNT, ("size=" + size).c_str()), 0);
  }

 private:
  std::string path_;
  bool mounted_ = false;
};

TEST_F(Signals, FullDiskOfTheCheckpoints) {
  for (const bool async : {false, true}) {
    SCOPED_TRACE(async ? "async" : "sync");
    const std::string disk_path = file(async ? "disk-async" : "disk");
    // Flight records of 4 x 92 kB, and one checkpoint of about 190 kB, not two.
    SmallDisk disk(disk_path, "668k");
    if (!disk.is_mounted()) {
      GTEST_SKIP() << "no right to mount a tmpfs";
    }
    const std::string out = disk_path + "/run";
    std::vector<std::string> args =
        folder_.train({"--layout", "dp2.tp2", "--steps", "40", "--save-every", "20", "--out", out});
    if (async) {
      args.emplace_back("--async-save");
    }
    const Result full = run_plait(args);
    EXPECT_EQ(full.status, 3) << full.err;
    EXPECT_NE(full.err.find("No space left"), std::string::npos) << full.err;
    EXPECT_NE(full.err.find("step-00000040"), std::string::npos) << full.err;
    const Result list = run_plait({"checkpoint", "list", out + "/checkpoints", "--json"});
    const Json entries = parse_json(list.out, "list");
    ASSERT_EQ(entries.size(), 1U) << list.out;
    EXPECT_EQ(entries[0]["step"], 20);
    EXPECT_EQ(entries[0]["problem"], "");
    EXPECT_EQ(run_plait({"checkpoint", "verify", out + "/checkpoints/step-00000020"}).status, 0);
    disk.grow("4m");
    args.emplace_back("--resume");
    const Result resumed = run_plait(args);
    EXPECT_EQ(resumed.status, 0) << resumed.err;
    EXPECT_NE(resumed.err.find("resuming after step 20"), std::string::npos) << resumed.err;
    EXPECT_EQ(read_metrics(out + "/metrics.jsonl").size(), 40U);
  }
}

}  // namespace
}  // namespace plait
