// The tensors that forward keeps for backward, per layer and micro-batch: one list that the layer
// allocates from and the memory estimate adds up.
#pragma once

#include <cstdint>
#include <vector>

#include "base/dtype.h"
#include "spec/model_config.h"
#include "topology/layout.h"

namespace plait {

enum class Saved : uint8_t {
  kInput,      // [Ts, D] the layer's input
  kNorm1Rstd,  // f32 [Ts]
  kNorm1,      // [Ts, D] input of the qkv projection
  kQkv,        // [T, (H + 2 Hkv) K / tp]; rotated in place where there is no QK-norm
  kQRstd,      // f32 [T, H / tp], QK-norm only
  kKRstd,      // f32 [T, Hkv / tp], QK-norm only
  kRotated,    // [T, (H + Hkv) K / tp] normalised and rotated q and k, QK-norm only
  kAttention,  // [T, H K / tp]
  kLse,        // f32 [H / tp, T]
  kMid,        // [Ts, D] residual stream between attention and MLP
  kNorm2Rstd,  // f32 [Ts]
  kNorm2,      // [Ts, D] input of the gate and up projection
  kGateUp,     // [T, 2 F / tp]
  kSwiglu,     // [T, F / tp] input of the down projection
};
constexpr int kNumSaved = 14;

struct SavedTensor {
  Saved id = Saved::kInput;
  std::vector<int64_t> shape;
  DType dtype = DType::kF32;
  bool kept = true;  // false: dropped after forward and redone in backward

  int64_t bytes() const;
};

// T = tokens of one micro-batch (rows * seq_len); Ts = T / tp under sequence parallelism, else T.
struct ActivationShape {
  int64_t tokens = 0;
  DType dtype = DType::kF32;  // compute precision
};

// Every tensor that a layer's forward makes for its backward; kNone keeps all, kSelective drops
// those that cost no matrix product, kFull keeps kInput alone.
std::vector<SavedTensor> layer_saved_tensors(const ModelConfig& config, const Layout& layout,
                                             const ActivationShape& shape);

// Sum of the kept ones.
int64_t layer_saved_bytes(const ModelConfig& config, const Layout& layout,
                          const ActivationShape& shape);

}  // namespace plait
