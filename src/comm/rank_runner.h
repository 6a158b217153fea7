// Runs one function on every rank: as threads of this process (comm/local), or, when the process
// was started by mpirun or srun, as this process's one rank (comm/mpi).
#pragma once

#include <functional>
#include <string>

#include "comm/process_group.h"
#include "device/device.h"

namespace plait {

struct RankRunnerOptions {
  int ranks = 1;               // world size; under a launcher it must be the launcher's
  std::string device = "cpu";  // registry name
  int threads_per_rank = 0;    // 0: cores / local ranks, at least 1
  CommOptions comm;
  // Threads that wait for another rank spin this long before they sleep, where each has a core of
  // its own. Longer waits are not worth a core; waking up costs tens of microseconds.
  double spin_s = 3e-4;
  // Where fault reports (empty: stderr only) and flight records (empty: as set before) go.
  std::string run_dir;
  // Under MPI: called once, on the transport's thread, when another rank is lost, with a sentence
  // that names it. Must return soon and must not call into the world.
  std::function<void(const std::string& what)> on_lost_rank = {};
  // Under MPI: how long a process that has lost another rank than 0 stays (to tell its clients)
  // before it leaves with status 3. Ranks beyond 0 stay a second longer, so that the launcher does
  // not end rank 0 before its time. A rank that died, not stopped, cuts it to 3 s.
  double leave_after_s = 0;
};

// True when an MPI launcher started this process (its environment says so).
bool under_mpi_launcher();

// World size that the launcher gave, or 1. Reads the environment only.
int launcher_world_size();

// This process's rank in the launcher's world, or 0. Reads the environment only.
int launcher_rank();

// Ranks that the launcher started on this host; 1 if it does not say (only mpirun does).
int launcher_local_size();

// Calls body(world) once per rank of this process. A rank that throws aborts the world; the first
// error (not those of ranks that were only told to stop) is rethrown after all ranks have ended.
// Threads spin in waits only while ranks * threads <= cores.
void run_ranks(const RankRunnerOptions& options, const std::function<void(World&)>& body);

}  // namespace plait
