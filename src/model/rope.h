// Rotary tables, with the frequency scaling of Llama 3.1.
#pragma once

#include <vector>

#include "op/attention.h"
#include "spec/model_config.h"

namespace plait {

// Inverse frequencies, head_dim / 2 of them, as HF modeling_rope_utils computes them
// ("default": theta^(-2i/d); "llama3": low frequencies divided by `factor`, a linear blend
// between).
std::vector<double> rope_inverse_frequencies(const RopeConfig& rope, int64_t head_dim);

// cos and sin of position * frequency for positions [0, seq_len), on the device.
RopeTable make_rope_table(Device& device, const ModelConfig& config, int64_t seq_len);

}  // namespace plait
