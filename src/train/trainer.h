// A training run from the first step to the last: data, steps, validation, checkpoints, metrics,
// signals.
#pragma once

#include "train/step_log.h"
#include "train/train_config.h"

namespace plait {

// Runs on all ranks of this process and returns what rank 0 knows (an empty summary in processes
// without rank 0). A signal that asks to stop (see StopSignals) ends the run after a checkpoint.
// Errors: as resolve_train_run; kComm naming a lost rank; kNonFinite naming step, rank and layer;
// kResourceExhausted when a checkpoint cannot be written; the previous one stays.
TrainSummary run_training(const TrainRun& run);

}  // namespace plait
