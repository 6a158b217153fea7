// The weights of one rank for inference: packed once, in the order that the kernels read, and read
// from the source part by part, so that no second copy ever exists.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "device/device.h"
#include "parallel/parallel_context.h"
#include "parallel/parameter_store.h"
#include "spec/model_config.h"
#include "tensor/tensor.h"

namespace plait {

// A Linear weight in the backend's order.
class PackedMatrix {
 public:
  PackedMatrix() = default;
  PackedMatrix(Device& device, const PackedWeight& weight);
  explicit operator bool() const { return buffer_ != nullptr; }
  const PackedWeight& weight() const { return weight_; }
  DevicePtr ptr() const { return buffer_->ptr(); }
  int64_t bytes() const { return buffer_->bytes(); }

 private:
  PackedWeight weight_;
  std::shared_ptr<Buffer> buffer_;  // a tied embedding shares the head's
};

// Absent parts are empty. Norms and biases are f32; the bias of a row-parallel product is zero on
// all tp ranks but the first, because their products are added up.
struct DecoderLayerWeights {
  Tensor norm1, norm2, q_norm, k_norm;
  PackedMatrix qkv, o, gate_up, down;
  Tensor qkv_bias, o_bias, gate_up_bias, down_bias;
};

struct DecoderWeights {
  PackedMatrix embedding;  // first stage: this rank's rows of the vocabulary
  std::vector<DecoderLayerWeights> layers;
  Tensor final_norm;  // last stage
  PackedMatrix head;  // last stage: likewise; shares a tied embedding
  int64_t vocab_begin = 0;
  int64_t bytes = 0;
};

struct DecoderLoadOptions {
  WeightFormat format = WeightFormat::kF32;
  int threads = 1;  // that read the source, which must be thread-safe
  // Called now and then with the bytes of weights packed so far.
  std::function<void(int64_t bytes)> progress;
};

// Reads this rank's part of every parameter through `source` (as ParameterStore::build_image calls
// it). Not collective. Peak memory: the result and a staging buffer of at most 16 MiB or one row.
// Requires: a model that check_trainable accepts, and tp divides heads, kv heads and ffn size.
DecoderWeights load_decoder_weights(const ModelConfig& config, const ParallelContext& context,
                                    const ParameterStore::ShardSource& source,
                                    const DecoderLoadOptions& options);

// Bytes that load_decoder_weights will allocate for this layout's largest rank.
int64_t decoder_weight_bytes(const ModelConfig& config, const Layout& layout, WeightFormat format);

}  // namespace plait
