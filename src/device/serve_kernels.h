// Arguments of the operators that serving adds to the table in kernels.h; the conventions there
// hold. All are batch-invariant: what a row gets depends on that row (and, for attention, on the
// keys before it) alone, bit for bit, never on the rows beside it, the thread count, or how a
// prompt is cut into chunks. Each element of a product has one order of summation: k = 0, 1, ...
// with one accumulator.
#pragma once

#include <cstdint>

#include "base/dtype.h"
#include "device/device_ptr.h"

namespace plait {

// How the elements of a packed weight are kept. kInt8: w = scale * (q - zero) with an 8-bit integer
// q, and an f16 scale and a zero in 16 bits for every kInt8Group elements of a row of W (output
// channel). One scale a row would change twice as many tokens (docs/serving.md); a zero also keeps
// weights that were quantised to 16 levels before (GGUF's Q4_1) nearly as they are.
enum class WeightFormat : uint8_t { kF32, kBF16, kInt8 };

constexpr int64_t kInt8Group = 32;

// 4, 2, and with its share of scale and zero 1.125.
constexpr double weight_format_size(WeightFormat format) {
  return format == WeightFormat::kF32    ? 4
         : format == WeightFormat::kBF16 ? 2
                                         : 1 + 4.0 / kInt8Group;
}

// A Linear weight W[n, k] (c = a W^T) in the backend's own order, one block of
// Kernels::packed_weight_bytes() bytes; serves any number of rows. 64-byte aligned.
struct PackedWeight {
  int64_t n = 0, k = 0;
  WeightFormat format = WeightFormat::kF32;
};

// Packs rows [row_begin, row_begin + rows) of W, so that a weight can be put together from pieces
// (q | k | v, gate | up, a tp shard, a part that fits a staging buffer) in any order. The pieces
// must cover all n rows; the piece that ends at row n also fills the padding. Packing one piece
// twice is fine.
struct PackWeightArgs {
  DevicePtr source;  // f [rows, source_stride], the first k of each row are taken
  DevicePtr packed;
  PackedWeight weight;
  int64_t row_begin = 0, rows = 0;
  int64_t source_stride = 0;
  DType source_dtype = DType::kF32;
  template <typename F>
  void each_pointer(F f) {
    f(source), f(packed);
  }
};

// c[m, n] = a[m, k] W^T (+ bias) (+ c), rounded once to c's type.
// kF32 and kBF16: f32 products and sums; bf16 `a` against kBF16 may use the CPU's bf16 dot product
// instead (same order for every m on one machine, but other bits than on another). f32 `a` against
// kBF16 equals f32 `a` against the same values kept as kF32 bit for bit: f32 inference of a bf16
// model needs no f32 copy. kInt8: each row of `a` is scaled to 16-bit integers; the sums over
// groups are exact, and are added in f32.
struct MatmulPackedArgs {
  DevicePtr a;       // f32 or bf16
  DevicePtr packed;  // see PackWeightArgs
  DevicePtr c;       // f32 or bf16; may not overlap a
  DevicePtr bias;    // optional, f32 [n]
  PackedWeight weight;
  int64_t m = 0;
  int64_t a_stride = 0, c_stride = 0;
  bool accumulate = false;  // add to c (a residual), after the bias
  DType a_dtype = DType::kF32, c_dtype = DType::kF32;
  template <typename F>
  void each_pointer(F f) {
    f(a), f(packed), f(c), f(bias);
  }
};

// out[r] = row (ids[r] - vocab_begin) of a packed W (for a tied embedding), zeros when the id is
// not in [vocab_begin, vocab_begin + n). Exact but for kInt8.
struct EmbeddingPackedArgs {
  DevicePtr ids;  // i32 [rows]
  DevicePtr packed;
  DevicePtr out;  // f32 or bf16 [rows, k]
  PackedWeight weight;
  int64_t rows = 0, vocab_begin = 0;
  DType out_dtype = DType::kF32;
  template <typename F>
  void each_pointer(F f) {
    f(ids), f(packed), f(out);
  }
};

// x (+= delta); y = x * rstd * weight, rstd = 1/sqrt(mean(x^2) + eps), row by row. The sum is
// stored to x. As in HF, x * rstd is rounded to y's type before the product with the weight.
struct NormRowsArgs {
  DevicePtr x;       // f32 or bf16 [rows, x_stride]
  DevicePtr delta;   // optional; as x
  DevicePtr weight;  // f32 [cols]
  DevicePtr y;       // f32 or bf16 [rows, y_stride]; may be x where the types are equal
  int64_t rows = 0, cols = 0;
  int64_t x_stride = 0, delta_stride = 0, y_stride = 0;
  float eps = 0;
  DType x_dtype = DType::kF32, y_dtype = DType::kF32;
  template <typename F>
  void each_pointer(F f) {
    f(x), f(delta), f(weight), f(y);
  }
};

// The paged KV cache of one layer is one block of memory of `blocks` times
// Kernels::kv_block_bytes(); cache block b starts at b times that, is in the backend's own order,
// holds K and V of kKvBlockTokens tokens for all kv heads, and can be copied as bytes. It needs no
// initialisation: nothing reads a token that was not stored. 64-byte aligned.
constexpr int64_t kKvBlockTokens = 16;

struct KvLayout {
  int64_t kv_heads = 0;
  int64_t head_dim = 0;       // even, at most 256
  DType dtype = DType::kF32;  // f32 or bf16
};

// What stands between the qkv product and attention, for each row of
// qkv = [q: heads * head_dim | k: kv_heads * head_dim | v: the same]:
// q and k heads: optional RMS norm over head_dim, then the rotation of RopeArgs at `positions`;
// q is written back in place; k and v go into the cache at `slots`, rounded to its type.
// Computed in f32, rounded once.
struct PrepareQkvArgs {
  DevicePtr qkv;             // f32 or bf16 [rows, qkv_stride]
  DevicePtr q_norm, k_norm;  // optional, f32 [head_dim]
  DevicePtr cos, sin;        // f32 [longest position + 1, head_dim / 2]
  DevicePtr positions;       // i32 [rows]
  DevicePtr slots;           // i32 [rows]: block * kKvBlockTokens + offset; negative: not stored
  DevicePtr kv_cache;        // of this layer
  KvLayout kv;
  int64_t rows = 0, heads = 0;
  int64_t qkv_stride = 0;
  float norm_eps = 0;
  DType dtype = DType::kF32;  // of qkv
  template <typename F>
  void each_pointer(F f) {
    f(qkv), f(q_norm), f(k_norm), f(cos), f(sin), f(positions), f(slots), f(kv_cache);
  }
};

// A run of consecutive rows of one request, for PagedAttentionArgs: a chunk of a prompt, or one row
// that decodes. Row i of the run is at position first_position + i and sees the keys at positions
// 0 to its own, which must be in the cache already.
struct AttentionRun {
  int32_t first_row = 0, rows = 0;
  int32_t first_position = 0;
  int32_t table = 0;  // row of block_tables
};

// Causal attention with grouped query heads against the paged cache. Softmax works in blocks of
// kAttentionBlock keys counted from position 0, merged in order. A bf16 q against a bf16 cache may
// use the CPU's bf16 dot product, with the weights of a block rounded to bf16; in one order still.
constexpr int64_t kAttentionBlock = 512;

struct PagedAttentionArgs {
  DevicePtr q;             // f32 or bf16, head h of row r at q + r * q_stride + h * head_dim
  DevicePtr out;           // likewise; may not overlap q
  DevicePtr kv_cache;      // of this layer
  DevicePtr runs;          // AttentionRun [run_count]
  DevicePtr block_tables;  // i32 [.., table_stride]: cache block of tokens [16 i, 16 i + 16)
  KvLayout kv;
  int64_t run_count = 0, table_stride = 0;
  int64_t heads = 0;  // a multiple of kv.kv_heads
  int64_t q_stride = 0, out_stride = 0;
  float scale = 0;
  DType dtype = DType::kF32;  // of q and out
  template <typename F>
  void each_pointer(F f) {
    f(q), f(out), f(kv_cache), f(runs), f(block_tables);
  }
};

// ids[r] = column of the largest value of row r, the first of equals; NaN loses to everything.
struct RowArgmaxArgs {
  DevicePtr logits;  // f32 or bf16 [rows, stride]
  DevicePtr ids;     // i32 [rows]
  DevicePtr values;  // optional, f32 [rows]: the largest values
  int64_t rows = 0, cols = 0, stride = 0;
  DType dtype = DType::kF32;
  template <typename F>
  void each_pointer(F f) {
    f(logits), f(ids), f(values);
  }
};

}  // namespace plait
