// How a job reads in the flags of Megatron-LM and MindSpeed-LLM. Internal to plan/export.
#pragma once

#include <vector>

#include "plan/export/script.h"
#include "plan/job.h"

namespace plait {

enum class FlagGroup : uint8_t { kModel, kParallel, kMemory, kBatch };

// The flags of a group, in a fixed order. Requires: a job that refuse_for_megatron accepts.
std::vector<ScriptFlag> megatron_job_flags(const TrainJob& job, FlagGroup group);

// Layers of every virtual stage in Megatron-LM's text ("Ett|tt|ttL"): E embedding, t layer, L loss.
std::string stage_layout_text(const Layout& layout);

}  // namespace plait
