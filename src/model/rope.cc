#include "model/rope.h"

#include <cmath>
#include <numbers>

namespace plait {

std::vector<double> rope_inverse_frequencies(const RopeConfig& rope, int64_t head_dim) {
  std::vector<double> frequencies;
  for (int64_t i = 0; i < head_dim / 2; ++i) {
    double frequency =
        1.0 / std::pow(rope.theta, static_cast<double>(2 * i) / static_cast<double>(head_dim));
    if (rope.type == RopeType::kLlama3) {
      const auto old_context = static_cast<double>(rope.original_max_position_embeddings);
      const double wavelength = 2.0 * std::numbers::pi / frequency;
      const double low_wavelength = old_context / rope.low_freq_factor;
      const double high_wavelength = old_context / rope.high_freq_factor;
      if (wavelength > low_wavelength) {
        frequency /= rope.factor;
      } else if (wavelength >= high_wavelength) {
        const double smooth = (old_context / wavelength - rope.low_freq_factor) /
                              (rope.high_freq_factor - rope.low_freq_factor);
        frequency = (1.0 - smooth) * frequency / rope.factor + smooth * frequency;
      }
    }
    frequencies.push_back(frequency);
  }
  return frequencies;
}

RopeTable make_rope_table(Device& device, const ModelConfig& config, int64_t seq_len) {
  const std::vector<double> frequencies = rope_inverse_frequencies(config.rope, config.head_dim);
  std::vector<float> cos;
  std::vector<float> sin;
  for (int64_t position = 0; position < seq_len; ++position) {
    for (const double frequency : frequencies) {
      // HF computes the angle in f32; so do we, to agree with it at long positions.
      const float angle = static_cast<float>(position) * static_cast<float>(frequency);
      cos.push_back(std::cos(angle));
      sin.push_back(std::sin(angle));
    }
  }
  const std::vector<int64_t> shape = {seq_len, config.head_dim / 2};
  RopeTable table{Tensor(device, shape, DType::kF32, MemoryCategory::kWeights),
                  Tensor(device, shape, DType::kF32, MemoryCategory::kWeights)};
  device.stream().copy_to_device(table.cos.ptr(), cos.data(), table.cos.bytes());
  device.stream().copy_to_device(table.sin.ptr(), sin.data(), table.sin.bytes());
  return table;
}

}  // namespace plait
