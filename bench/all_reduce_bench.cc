// comm/local's all_reduce on 2 ranks (f32, in place) beside MPI_Allreduce of the installed MPI on
// the same machine in the same run, from 8 B to 64 MB. The two take turns; the best of each counts.
//   all_reduce_bench [ROUNDS]
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>

#include "all_reduce_loop.h"
#include "base/error.h"
#include "comm/rank_runner.h"

namespace plait {
namespace {

using Times = std::map<int64_t, double>;  // seconds by bytes

void keep_best(Times& times, int64_t bytes, double seconds) {
  const auto [it, is_new] = times.emplace(bytes, seconds);
  if (!is_new && seconds < it->second) {
    it->second = seconds;
  }
}

void run_local(Times& times) {
  RankRunnerOptions options;
  options.ranks = 2;
  options.threads_per_rank = 1;
  run_ranks(options, [&](World& world) {
    auto group = world.create_group("all", {{0, 1}});
    Buffer buffer(world.device(), bench::kMaxBytes, MemoryCategory::kComm);
    world.device().stream().zero(buffer.ptr(), bench::kMaxBytes);
    for (int64_t bytes = bench::kMinBytes; bytes <= bench::kMaxBytes; bytes *= 2) {
      group->barrier();
      const AllReduceOptions all_reduce{buffer.ptr(), bytes / 4};
      const double best = bench::best_call_s(bytes, [&] { group->all_reduce(all_reduce); });
      if (world.rank() == 0) {
        keep_best(times, bytes, best);
      }
    }
  });
}

// Empty when MPI is not there.
void run_mpi(Times& times) {
#ifdef MPI_ALL_REDUCE_BENCH
  setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
  setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
  FILE* output = popen("mpirun -n 2 --oversubscribe --bind-to core " MPI_ALL_REDUCE_BENCH, "r");
  if (output == nullptr) {
    return;
  }
  long long bytes = 0;
  double seconds = 0;
  while (std::fscanf(output, "%lld %lf", &bytes, &seconds) == 2) {
    keep_best(times, bytes, seconds);
  }
  pclose(output);
#else
  static_cast<void>(times);
#endif
}

}  // namespace
}  // namespace plait

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 3;
  plait::Times local;
  plait::Times mpi;
  for (int round = 0; round < rounds; ++round) {
    plait::run_mpi(mpi);
    plait::run_local(local);
  }
  std::printf("%12s %12s %10s %12s %10s %8s\n", "bytes", "local us", "GB/s", "MPI us", "GB/s",
              "ratio");
  for (const auto& [bytes, seconds] : local) {
    const double size = static_cast<double>(bytes);
    std::printf("%12lld %12.3f %10.3f", static_cast<long long>(bytes), seconds * 1e6,
                size / seconds / 1e9);
    if (mpi.count(bytes) != 0) {
      std::printf(" %12.3f %10.3f %8.2f", mpi[bytes] * 1e6, size / mpi[bytes] / 1e9,
                  mpi[bytes] / seconds);
    }
    std::printf("\n");
  }
  return 0;
}
