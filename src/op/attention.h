// Rotary embedding and causal grouped-query attention.
#pragma once

#include "op/columns.h"
#include "tensor/tensor.h"

namespace plait {

// cos and sin, f32 [positions, head_dim / 2].
struct RopeTable {
  Tensor cos;
  Tensor sin;
};

// Rotates every head of x in place; row r has position r % seq_len. `inverse` undoes it.
struct RopeOptions {
  int64_t seq_len = 0;
  int64_t head_dim = 0;
  bool inverse = false;
};
void rope(const Columns& x, const RopeTable& table, const RopeOptions& options);

struct AttentionShape {
  int64_t seq_len = 0;
  int64_t head_dim = 0;
};

// q [T, H K], k and v [T, Hkv K] -> out [T, H K]; lse f32 [H, T].
struct QkvColumns {
  Columns q, k, v;
};
void attention_forward(const QkvColumns& qkv, const AttentionShape& shape, Tensor& out_TD,
                       Tensor& lse_HT);

// Overwrites grad. `scratch` is f32 [H, T].
struct AttentionSaved {
  QkvColumns qkv;
  Tensor out_TD;
  Tensor lse_HT;
};
void attention_backward(const AttentionSaved& saved, const AttentionShape& shape,
                        const Tensor& grad_out_TD, const QkvColumns& grad, Tensor& scratch_HT);

}  // namespace plait
