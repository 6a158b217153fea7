// How the CPU keeps packed weights and the KV cache. Everything is made of panels: the element
// (depth, lane) of a panel of kPanel lanes is at depth * kPanel + lane for f32, and for narrower
// types the two depths of a pair lie side by side, at (depth/2 * kPanel + lane) * 2 + depth % 2:
// what the multiply-add instructions on pairs (bf16, 16-bit integers) want, and with bf16 a shift
// or a mask away from f32.
#pragma once

#include <cstdint>

#include "base/round_up.h"
#include "device/cpu/serve/isa.h"
#include "device/serve_kernels.h"

namespace plait::cpu::serve {

// Index of an element within its panel.
template <typename T>
constexpr int64_t panel_index(int64_t depth, int64_t lane) {
  if constexpr (sizeof(T) == 4) {
    return depth * kPanel + lane;
  } else if constexpr (sizeof(T) == 2) {
    return (depth / 2 * kPanel + lane) * 2 + depth % 2;
  } else {
    return depth / kInt8Group * kInt8GroupBytes + kInt8GroupHead +
           (depth % kInt8Group / 2 * kPanel + lane) * 2 + depth % 2;
  }
}

// A packed weight is divide_up(n, kPanel) panels (lane: row of W, depth: k). Padding is zero.
inline int64_t packed_depth(const PackedWeight& weight) {
  switch (weight.format) {
    case WeightFormat::kF32:
      return weight.k;
    case WeightFormat::kBF16:
      return round_up(weight.k, 2);
    case WeightFormat::kInt8:
      return round_up(weight.k, kInt8Group);
  }
  return 0;
}
inline int64_t panel_bytes(const PackedWeight& weight) {
  const int64_t depth = packed_depth(weight);
  return weight.format == WeightFormat::kInt8  ? depth / kInt8Group * kInt8GroupBytes
         : weight.format == WeightFormat::kF32 ? depth * kPanel * 4
                                               : depth * kPanel * 2;
}
inline int64_t packed_bytes(const PackedWeight& weight) {
  return divide_up(weight.n, kPanel) * panel_bytes(weight);
}

// A cache block holds, kv head by kv head, K as one panel (lane: token, depth: dim) and V as
// padded_dim / kPanel panels (lane: dim, depth: token).
inline int64_t padded_dim(const KvLayout& layout) {
  return round_up(layout.head_dim, kPanel);
}
// Elements of K (or V) of one head in a block.
inline int64_t kv_part_elements(const KvLayout& layout) {
  return padded_dim(layout) * kKvBlockTokens;
}
inline int64_t kv_head_bytes(const KvLayout& layout) {
  return 2 * kv_part_elements(layout) * dtype_size(layout.dtype);
}
inline int64_t kv_block_bytes(const KvLayout& layout) {
  return kv_head_bytes(layout) * layout.kv_heads;
}
static_assert(kKvBlockTokens == kPanel);

// The largest integer that a row of `a` is scaled to against int8 weights, so that the sums of a
// group fit 32 bits: q - zero is at most 256, in parts.
constexpr int64_t kActivationLimit = 16383;
static_assert(kInt8Group * 256 * kInt8ZeroParts * kActivationLimit <= 0x7fffffff);

}  // namespace plait::cpu::serve
