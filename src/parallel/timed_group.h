// A process group that tells a StepRecorder how long its calls block and when its transfers run.
#pragma once

#include <memory>

#include "comm/process_group.h"
#include "parallel/step_recorder.h"

namespace plait {

// Wraps `group`; a group of one rank is returned as it is. `recorder` must outlive the result.
std::unique_ptr<ProcessGroup> make_timed_group(std::unique_ptr<ProcessGroup> group, Wait wait,
                                               StepRecorder& recorder);

}  // namespace plait
