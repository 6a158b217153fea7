// Initial weights from an HF model directory, for fine-tuning and inference.
#pragma once

#include <string>
#include <vector>

#include "parallel/parameter_store.h"
#include "spec/model_config.h"

namespace plait {

struct HfImport {
  // For ParameterStore::build_image. Keeps the files mapped while it or a copy lives; thread-safe,
  // so that ranks of one process may share it. Reads the requested rectangles only; BF16, F16 and
  // F32 become f32 exactly.
  ParameterStore::ShardSource source;
  DType matrix_dtype = DType::kF32;  // bf16 if all matrices are
  // Tensors of the directory that the model does not use and that are not known to be redundant
  // (rotary inv_freq; lm_head.weight of a tied model): worth a warning.
  std::vector<std::string> unused;
};

// Checks that every parameter of `config` is there in its shape and a float type before anything is
// read. Errors: kNotFound, kCorruptData naming tensor and file.
HfImport open_hf_weights(const std::string& directory, const ModelConfig& config);

}  // namespace plait
