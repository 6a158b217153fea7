// Work of a model, for MFU.
#pragma once

#include <cstdint>

#include "spec/model_config.h"

namespace plait {

// FLOP per token of a training step, forward and backward without recomputation: 6 per parameter of
// a matrix product (of MoE layers the experts that a token visits), 6 times the attended positions
// times the heads' size, attention counted causal. Megatron's convention (megatron/training/
// training.py); the embedding is no product, the head is.
double model_flops_per_token(const ModelConfig& config, int64_t seq_len);

}  // namespace plait
