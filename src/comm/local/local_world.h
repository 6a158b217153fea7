// Runs ranks as threads of this process.
#pragma once

#include <functional>

#include "comm/rank_runner.h"

namespace plait {

// run_ranks() without a launcher.
void run_local_ranks(const RankRunnerOptions& options, const std::function<void(World&)>& body);

}  // namespace plait
