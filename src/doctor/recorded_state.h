// The state of hosts that `plait doctor collect` puts into its archives, judged.
#pragma once

#include <string>
#include <vector>

#include "doctor/env_checks.h"
#include "doctor/log_scan.h"

namespace plait {

// One check that is bad or a warning, with all hosts of which it says the same.
struct StateRemark {
  std::vector<std::string> hosts;
  EnvCheck check;
};

// Of all HOST/plait-state/env/ among the files (ScannedFile::fact): what `doctor env` finds there,
// bad ones first, each once. A host whose index is damaged is left out. Text without control
// characters.
std::vector<StateRemark> judge_recorded_states(const std::vector<ScannedFile>& files);

}  // namespace plait
