// HF Trainer style programs (transformers, trl, LLaMA-Factory, ms-swift, FastChat): started with a
// DeepSpeed configuration, by accelerate, with FSDP, or with data parallelism alone.
#pragma once

#include <optional>
#include <string>

#include "plan/readers/launch.h"
#include "plan/readers/read_job.h"

namespace plait {

bool is_trainer_launch(const Launch& launch, const std::string& origin);

// Reads the configuration (a here-document of the script, or a file beside it) with the program's
// own flags (--per_device_train_batch_size, --model_name_or_path, ...). Errors: kInvalidArgument,
// kCorruptData or kNotFound naming file and line.
ReadJob read_trainer_launch(const Launch& launch, const ShellScript& script,
                            const ReadOptions& options);

// The launch that a YAML file is for, on `devices` devices; absent if it is none of a trainer.
std::optional<Launch> trainer_launch(const std::string& text, const std::string& origin,
                                     int devices);

}  // namespace plait
