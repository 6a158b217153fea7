// Run files of plait train (TOML).
#pragma once

#include <string>

#include "plan/readers/launch.h"
#include "plan/readers/read_job.h"

namespace plait {

// Reads [model], [layout], [batch] and [machine]; keys of these that the planner does not know are
// listed, other sections (data, optimizer, output) do not matter for a layout. The model: as
// options.model, the file's model.model, or a config.json beside the file. Errors:
// kInvalidArgument naming file and line.
ReadJob read_plait_run(const std::string& text, const std::string& origin,
                       const ReadOptions& options);

// A `plait train` command: its --run file (also beside `origin`), then its flags.
ReadJob read_plait_train(const Launch& launch, const std::string& origin,
                         const ReadOptions& options);

}  // namespace plait
