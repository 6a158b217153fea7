// How the CPU keeps packed weights and the KV cache. Everything is made of panels: the element
// (depth, lane) of a panel of kPanel lanes is at depth * kPanel + lane for f32, and for narrower
// types the two depths of a pair lie side by side, at (depth/2 * kPanel + lane) * 2 + depth % 2:
// what the multiply-add instructions on pairs (bf16, 16-bit integers) want, and with bf16 a shift
// or a mask away from f32.
#pragma once

#include <cstdint>

#include "base/round_up.h"
#include "device/serve_kernels.h"

namespace plait::cpu::serve {

constexpr int64_t kPanel = 16;

// Index of an element within its panel.
template <typename T>
constexpr int64_t panel_index(int64_t depth, int64_t lane) {
  return sizeof(T) == 4 ? depth * kPanel + lane : (depth / 2 * kPanel + lane) * 2 + depth % 2;
}

// A packed weight is divide_up(n, kPanel) panels (lane: row of W, depth: k) and, for kInt8, the f32
// scales of all lanes behind them. Padding is zero.
inline int64_t packed_depth(const PackedWeight& weight) {
  return weight.format == WeightFormat::kF32 ? weight.k : round_up(weight.k, 2);
}
inline int64_t panel_bytes(const PackedWeight& weight) {
  return packed_depth(weight) * kPanel * weight_format_size(weight.format);
}
inline int64_t scales_offset(const PackedWeight& weight) {
  return round_up(divide_up(weight.n, kPanel) * panel_bytes(weight), 64);
}
inline int64_t packed_bytes(const PackedWeight& weight) {
  const int64_t scales = weight.format == WeightFormat::kInt8 ? round_up(weight.n, kPanel) * 4 : 0;
  return scales_offset(weight) + scales;
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

// The largest integer that a row of `a` is scaled to against int8 weights: the sum over k of
// 127 * limit fits in 31 bits.
inline int64_t activation_limit(int64_t k) {
  const int64_t fits = 0x7fffffff / (127 * (k > 0 ? k : 1));
  return fits < 32767 ? fits : 32767;
}

}  // namespace plait::cpu::serve
