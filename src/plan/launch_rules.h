// Rules of how a program is started, whatever the program.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plan/readers/launch.h"
#include "plan/readers/read_job.h"

namespace plait {

// Processes of each server against the devices it shows, the address that the servers meet at, and
// options that are cut off from the command. `per_server`, `servers`: 0 if not known.
std::vector<CheckProblem> check_launched(const Launch& launch, const std::string& origin,
                                         int64_t per_server, int64_t servers);

}  // namespace plait
