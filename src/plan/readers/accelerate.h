// Configurations of HF's accelerate: the YAML of "accelerate launch --config_file", and the same
// settings as options of the launcher. Internal to readers/.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plan/readers/flag_set.h"
#include "plan/readers/launch.h"

namespace plait {

struct AccelerateConfig {
  int64_t num_processes = 0;   // of all machines; 0: not told
  int64_t num_machines = 1;    // 0: not known
  std::string precision;       // "bf16", "fp16", "no"; empty: not told
  std::string deepspeed_file;  // a DeepSpeed configuration; its numbers beat the ones below
  int zero = 0;                // FSDP's FULL_SHARD is stage 3, SHARD_GRAD_OP stage 2
  bool offload_optimizer = false;
  bool offload_parameters = false;
  bool recomputes = false;
  int64_t accumulation = 0;  // 0: not told
  std::string strategy;      // "FSDP FULL_SHARD", "DeepSpeed ZeRO-2", "DDP"
  SourceLine where;
  std::vector<Note> notes;
  std::vector<UnknownFlag> unknown_keys;
};

// Of a launch by accelerate. Errors: kNotFound for a file that is not there, kCorruptData for text
// that is no YAML, kInvalidArgument naming key and value.
AccelerateConfig read_accelerate(const Launch& launch, const ShellScript& script);

// HF Trainer's own "--fsdp 'full_shard offload'" in the same terms.
AccelerateConfig fsdp_of_trainer(const std::string& value, const SourceLine& where);

}  // namespace plait
