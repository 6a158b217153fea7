#include "comm/rank_runner.h"

#include <algorithm>
#include <cstdlib>

#include "base/error.h"
#include "comm/flight_record.h"
#include "comm/local/local_world.h"
#ifdef PLAIT_HAVE_MPI
#include "comm/mpi/mpi_world.h"
#endif

namespace plait {
namespace {

// Open MPI's mpirun; PMI launchers (MPICH's mpiexec); srun with a PMI plugin.
constexpr const char* kSizeVariables[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE",
                                          "SLURM_STEP_NUM_TASKS"};

constexpr const char* kRankVariables[] = {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"};

int positive_int(const char* text) {
  const int value = std::atoi(text);
  return value > 0 ? value : 1;
}

}  // namespace

bool under_mpi_launcher() {
  for (const char* name : kSizeVariables) {
    if (std::getenv(name) != nullptr) {
      return true;
    }
  }
  return false;
}

int launcher_world_size() {
  for (const char* name : kSizeVariables) {
    if (const char* value = std::getenv(name)) {
      return positive_int(value);
    }
  }
  return 1;
}

int launcher_rank() {
  for (const char* name : kRankVariables) {
    if (const char* value = std::getenv(name)) {
      return std::max(0, std::atoi(value));
    }
  }
  return 0;
}

int launcher_local_size() {
  const char* value = std::getenv("OMPI_COMM_WORLD_LOCAL_SIZE");
  return value != nullptr ? positive_int(value) : 1;
}

void run_ranks(const RankRunnerOptions& options, const std::function<void(World&)>& body) {
  if (!options.run_dir.empty()) {
    set_flight_folder(options.run_dir);
  }
  if (!under_mpi_launcher()) {
    run_local_ranks(options, body);
    return;
  }
#ifdef PLAIT_HAVE_MPI
  run_mpi_rank(options, body);
#else
  throw_error(
      ErrorCode::kUnavailable,
      "this process was started by an MPI launcher, but plait was built without MPI; install "
      "libopenmpi-dev and rebuild, or start it without the launcher and use --ranks");
#endif
}

}  // namespace plait
