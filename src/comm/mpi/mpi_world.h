// Runs this process as one rank of an MPI job.
#pragma once

#include <functional>

#include "comm/rank_runner.h"

namespace plait {

// run_ranks() under a launcher. Initialises MPI (with threads) and finalises it when all ranks have
// succeeded; so it may be called once in a process. When a rank has failed, MPI is not finalised:
// the process should report and exit.
void run_mpi_rank(const RankRunnerOptions& options, const std::function<void(World&)>& body);

}  // namespace plait
