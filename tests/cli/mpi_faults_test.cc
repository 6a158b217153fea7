// plait train under mpirun: ranks that are killed, stopped, or asked to stop.
#include <signal.h>

#include "base/clock.h"
#include "base/json_full.h"
#include "cli/program.h"

namespace plait {
namespace {

constexpr int kRanks = 4;
constexpr double kDeadlineS = 5;

class MpiFaults : public testing::Test {
 protected:
  // mpirun of "plait train" into run/.
  std::vector<std::string> command(const std::vector<std::string>& more,
                                   const std::vector<std::string>& mpi_flags = {}) const {
    std::vector<std::string> args = {"mpirun",          "-n",        std::to_string(kRanks),
                                     "--oversubscribe", "--bind-to", "none"};
    args.insert(args.end(), mpi_flags.begin(), mpi_flags.end());
    args.push_back(plait_path());
    for (const std::string& arg :
         folder_.train({"--layout", "dp2.tp2", "--out", file("run"), "--deadline", "5"})) {
      args.push_back(arg);
    }
    args.insert(args.end(), more.begin(), more.end());
    return args;
  }

  std::string file(const std::string& name) const { return folder_.file(name); }
  std::string metrics() const { return file("run/metrics.jsonl"); }

  // Checkpoints, temporary ones too.
  std::vector<std::string> checkpoints() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(file("run/checkpoints"))) {
      names.push_back(entry.path().filename().string());
    }
    return names;
  }

  // Trains 10 steps to a checkpoint on threads: the layout is the same under mpirun.
  void make_checkpoint() {
    const Result result =
        run_plait(folder_.train({"--layout", "dp2.tp2", "--steps", "10", "--out", file("run")}));
    ASSERT_EQ(result.status, 0) << result.err;
  }

  void expect_resumes() {
    const Result result = run_plait(
        folder_.train({"--layout", "dp2.tp2", "--steps", "12", "--out", file("run"), "--resume"}));
    EXPECT_EQ(result.status, 0) << result.err;
    EXPECT_NE(result.err.find("resuming after step 10"), std::string::npos) << result.err;
    EXPECT_EQ(read_metrics(metrics()).size(), 12U);
  }

  void expect_reports(const Program& program, int lost) {
    EXPECT_EQ(count_of(program.err(), "plait: rank " + std::to_string(lost) + " (host "),
              kRanks - 1)
        << program.err();
    for (int rank = 0; rank < kRanks; ++rank) {
      const std::string path = file("run/fault-rank" + std::to_string(rank) + ".json");
      if (rank == lost) {
        EXPECT_FALSE(std::filesystem::exists(path));
        continue;
      }
      const Json report = read_json(path);
      EXPECT_EQ(report["lost_rank"], lost);
      const std::string operation = report["lost_operation"];
      EXPECT_NE(operation.find(", sequence "), std::string::npos) << operation;
      EXPECT_NE(operation.find(" of group "), std::string::npos) << operation;
      EXPECT_NE(program.err().find(operation), std::string::npos) << operation;
    }
  }

  TrainFolder folder_;
};

struct Fault {
  int rank = 0;
  int signal = SIGKILL;
  bool recovery = false;
  bool terminate_others = false;  // at once, before anybody knows of the loss
};

class LostRank : public MpiFaults, public testing::WithParamInterface<Fault> {};

TEST_P(LostRank, EndsTheOthersWithoutACheckpointAndResumeGoesOn) {
  const Fault& fault = GetParam();
  make_checkpoint();
  const std::vector<std::string> before = checkpoints();
  std::vector<std::string> flags;
  if (fault.recovery) {
    flags.emplace_back("--enable-recovery");
  }
  Program program(command({"--steps", "1000000", "--resume"}, flags));
  ASSERT_TRUE(await_metrics(program, metrics(), 15)) << program.err();
  const std::map<int, pid_t> pids = mpi_ranks_of(program.pid());
  ASSERT_EQ(pids.size(), static_cast<size_t>(kRanks));
  kill(pids.at(fault.rank), fault.signal);
  const double start = now_s();
  for (const auto& [rank, pid] : pids) {
    if (rank != fault.rank && fault.terminate_others) {
      kill(pid, SIGTERM);
    }
  }
  for (const auto& [rank, pid] : pids) {
    while (rank != fault.rank && is_alive(pid) && now_s() - start < 2 * kDeadlineS) {
      program.read_for(0.02);
    }
    EXPECT_TRUE(rank == fault.rank || !is_alive(pid)) << "rank " << rank << "\n" << program.err();
  }
  EXPECT_LT(now_s() - start, kDeadlineS);
  // With --enable-recovery mpirun waits for a stopped process, which nobody but the user can judge,
  // and returns 0 whatever the ranks returned.
  kill(pids.at(fault.rank), SIGKILL);
  EXPECT_GE(program.await_end(60), fault.recovery ? 0 : 1) << program.err();
  expect_reports(program, fault.rank);
  EXPECT_EQ(checkpoints(), before) << program.err();
  expect_resumes();
}

INSTANTIATE_TEST_SUITE_P(
    Faults, LostRank,
    testing::Values(Fault{.rank = 1}, Fault{.rank = 0, .recovery = true},
                    Fault{.rank = 2, .signal = SIGSTOP},
                    Fault{.rank = 0, .signal = SIGSTOP, .recovery = true},
                    Fault{.rank = 3, .terminate_others = true},
                    Fault{.rank = 3, .signal = SIGSTOP, .terminate_others = true}));

TEST_F(MpiFaults, SigtermOfOneRankStopsAllAfterACheckpoint) {
  Program program(command({"--steps", "1000000"}));
  ASSERT_TRUE(await_metrics(program, metrics(), 3)) << program.err();
  const std::map<int, pid_t> pids = mpi_ranks_of(program.pid());
  ASSERT_EQ(pids.size(), static_cast<size_t>(kRanks));
  kill(pids.at(2), SIGUSR1);
  EXPECT_TRUE(program.await_err("rank 2: ", 60)) << program.err();
  kill(pids.at(2), SIGTERM);
  EXPECT_EQ(program.await_end(60), 0) << program.err();
  EXPECT_NE(program.out().find("stopped by a signal"), std::string::npos) << program.out();
  EXPECT_EQ(checkpoints().size(), 1U);
}

TEST_F(MpiFaults, ErrorsOfOneRankEndTheJobWithItsMessage) {
  std::vector<std::string> args = command({"--steps", "5", "--ranks", "8"});
  const Result ranks = run_program(args);
  EXPECT_EQ(ranks.status, 2) << ranks.err;
  EXPECT_NE(ranks.err.find("ranks=8: the launcher started 4 processes"), std::string::npos)
      << ranks.err;
  const Result full = run_program(command({"--steps", "5", "--metrics", "/dev/full"}));
  EXPECT_EQ(full.status, 3) << full.err;
  EXPECT_NE(full.err.find("/dev/full"), std::string::npos) << full.err;
  EXPECT_FALSE(std::filesystem::exists(file("run/checkpoints/step-00000005")));
}

}  // namespace
}  // namespace plait
