// Loops all_reduce under mpirun until something happens to it: fault_driver DEADLINE_S RUN_DIR
// MODE. Prints "pid RANK PID" on stdout when the loop runs. MODE: "loop"; "wedge", "throw",
// "check", "abort": rank 1 stops calling, throws, breaks an invariant, or ends the job after 21
// rounds.
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "comm/fault.h"
#include "comm/rank_runner.h"

namespace plait {
namespace {

// As train handles it: nothing collective is begun by a process that has lost a peer.
void on_sigterm(int) {
  char text[64];
  const int size = std::snprintf(text, sizeof(text), "%d sigterm: %s\n", getpid(),
                                 peer_lost() ? "peer lost" : "no peer lost");
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, text, static_cast<size_t>(size));
  _exit(4);
}

// False if the loop is over.
bool misbehave(World& world, const std::string& mode) {
  if (mode == "wedge") {
    std::this_thread::sleep_for(std::chrono::seconds(60));
  } else if (mode == "throw") {
    throw_error(ErrorCode::kNonFinite, "loss is NaN");
  } else if (mode == "check") {
    CHECK_EQ(1 + 1, 3);
  } else if (mode == "abort") {
    world.abort("the operator said so");
    return false;
  }
  return true;
}

void loop(World& world, const std::string& mode) {
  std::vector<int> ranks(static_cast<size_t>(world.size()));
  std::iota(ranks.begin(), ranks.end(), 0);
  auto group = world.create_group("dp", {ranks});
  Buffer buffer(world.device(), 400000, MemoryCategory::kComm);
  world.device().stream().zero(buffer.ptr(), 400000);
  for (int round = 0;; ++round) {
    if (round == 20) {
      std::printf("pid %d %d\n", world.rank(), getpid());
      std::fflush(stdout);
    }
    // Round 20 ended only after every rank had printed.
    if (round == 21 && world.rank() == 1 && !misbehave(world, mode)) {
      return;
    }
    group->all_reduce({buffer.ptr(), 100000, DType::kF32, ReduceOp::kSum, round % 2 == 1}).wait();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

}  // namespace
}  // namespace plait

int main(int argc, char** argv) {
  if (argc != 4) {
    return 2;
  }
  const std::string mode = argv[3];
  if (mode != "loop") {  // which shows what happens where nobody handles the signal
    signal(SIGTERM, plait::on_sigterm);
  }
  plait::RankRunnerOptions options;
  options.ranks = plait::launcher_world_size();
  options.threads_per_rank = 1;
  options.comm.deadline_s = std::atof(argv[1]);
  options.run_dir = argv[2];
  try {
    plait::run_ranks(options, [&](plait::World& world) { plait::loop(world, mode); });
  } catch (const plait::Error& e) {
    std::fprintf(stderr, "error: %s (%s)\n", e.what(), plait::error_code_name(e.code()));
    return plait::exit_code(e.code());
  }
  return 0;
}
