// Models with made-up weights, for benchmarks and first steps: an HF directory that loads like any
// other.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "base/dtype.h"
#include "spec/model_config.h"

namespace plait {

struct RandomModelOptions {
  uint64_t seed = 1;
  DType dtype = DType::kBF16;                                    // or f32
  std::function<void(int64_t done, int64_t all)> progress = {};  // bytes
};

// Small enough for tests and a laptop: 4 layers of 64, a vocabulary of 320.
ModelConfig tiny_model_config();

// Writes config.json, generation_config.json, model.safetensors, tokenizer.json (one token a byte,
// and the marks of ChatML) and tokenizer_config.json (a ChatML template) to `directory`, which is
// made. Norms are one, biases zero, matrices normal with the model's initializer_range. Errors:
// kIo, kResourceExhausted; kNotImplemented for a model that plait does not execute;
// kInvalidArgument for a vocabulary below 320.
void write_random_model(const ModelConfig& config, const std::string& directory,
                        const RandomModelOptions& options);

// The same model as one GGUF file: matrices in options.dtype, vectors in f32, the byte tokenizer
// with as many tokens as the model has rows. Errors: as above; kNotImplemented for a rope that GGUF
// states in another way.
void write_random_gguf(const ModelConfig& config, const std::string& path,
                       const RandomModelOptions& options);

}  // namespace plait
