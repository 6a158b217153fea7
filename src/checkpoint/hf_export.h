// From a training checkpoint to an HF model directory that HF transformers loads.
#pragma once

#include <cstdint>
#include <string>

#include "base/dtype.h"

namespace plait {

struct HfExportOptions {
  std::string checkpoint;                  // .../step-00000100
  std::string output;                      // new or empty folder
  DType dtype = DType::kF32;               // kF32 (exact) or kBF16 (rounded to nearest even)
  int64_t shard_bytes = int64_t{4} << 30;  // tensors of one file; a larger tensor has its own
};

// Writes config.json, generation_config.json and model.safetensors, or above `shard_bytes`
// model-00001-of-0000N.safetensors with model.safetensors.index.json. Needs neither ranks nor a
// device and about one tensor of memory. The folder appears when it is complete.
// Errors: as CheckpointReader; kInvalidArgument if `output` is not empty or the type is another;
// kIo, kResourceExhausted.
void export_hf(const HfExportOptions& options);

}  // namespace plait
