// What an instruction set provides to the serving operators. The drivers (matmul.cc, attention.cc)
// know none; each set fills one table from product.inc and attention.inc.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "device/serve_kernels.h"

namespace plait::cpu::serve {

constexpr int64_t kPanel = 16;  // see layout.h

// The zeros of int8 weights have a fraction: they are kept in parts of a step. A whole number of
// steps would shift all weights of a group the same way.
constexpr int32_t kInt8ZeroParts = 16;

// A group of depths of an int8 panel: the f16 scales of the lanes, their int16 zeros, then the
// elements.
constexpr int64_t kInt8GroupHead = kPanel * 4;
constexpr int64_t kInt8GroupBytes = kInt8GroupHead + kInt8Group * kPanel;
// The same group of a row of `a`: int16 elements, then their sum as int32.
constexpr int64_t kInt8RowGroupBytes = kInt8Group * 2 + 4;

// How the elements of a product are multiplied. A row of `a` is stored accordingly.
enum class Arithmetic : uint8_t {
  kF32,        // f32 weights; a: f32
  kBf16,       // bf16 weights, made f32 on the way; a: f32
  kBf16Pairs,  // bf16 weights; a: bf16; the CPU's dot product of pairs
  kInt8,       // int8 weights; a: int16; exact sums of a group in 32 bits
};

// c for `m` rows and `panel_count` panels of columns, over `steps` steps of depth (a step is one
// depth for kF32 and two for the others; kInt8: whole groups).
struct ProductBlock {
  Arithmetic arithmetic = Arithmetic::kF32;
  const char* a = nullptr;
  int64_t a_stride = 0;  // in bytes
  int64_t m = 0;
  const char* panels = nullptr;
  int64_t panel_stride = 0;  // in bytes
  int64_t panel_count = 0;
  int64_t steps = 0;
  // The sums so far; unused when the block covers the whole depth.
  float* partial = nullptr;
  int64_t partial_stride = 0;
  bool first = true, last = true;
  // With `last`: c = sums (* scales) (+ bias) (+ c).
  void* c = nullptr;  // of the first row and column
  int64_t c_stride = 0;
  int64_t n = 0;  // columns of c that exist, at most panel_count panels
  DType c_dtype = DType::kF32;
  bool add_c = false;
  const float* bias = nullptr;      // of the first column; or null
  const float* a_scales = nullptr;  // kInt8: of the rows; else null
};

// Turns a row of `a` of type `dtype` into what the arithmetic wants: `padded` elements, zeros
// beyond k. Returns the scale for kInt8, else 1.
struct ActivationRow {
  Arithmetic arithmetic = Arithmetic::kF32;
  const void* source = nullptr;
  DType dtype = DType::kF32;
  int64_t k = 0, padded = 0;
  float limit = 0;  // kInt8: the largest integer
  void* out = nullptr;
};

// Some query rows of the heads that share one kv head, against the keys of one block of
// kAttentionBlock: scores, softmax relative to the block's largest score, and the weighted sum of
// values.
struct AttentionBlock {
  const void* q = nullptr;  // [rows, row_stride] of f32, or of bf16 with bf16_pairs
  bool bf16_pairs = false;  // for a bf16 cache: both products by the CPU's dot product of pairs
  float score_scale = 1;
  int64_t rows = 0;
  int64_t row_stride = 0;  // of q and out: head_dim in whole panels
  int64_t head_dim = 0;
  const char* const* blocks = nullptr;  // K of the kv head in each cache block
  int64_t block_count = 0;
  int64_t values_offset = 0;  // bytes from K to V
  DType kv_dtype = DType::kF32;
  int64_t keys = 0;                  // that the last row sees, at most block_count * kPanel
  const int32_t* visible = nullptr;  // keys that each row sees: the first ones
  float* scores = nullptr;           // [rows, score_stride]: room to work
  int64_t score_stride = 0;
  // Results: of each row, the weighted sum, the largest score, and the sum of the weights.
  float* out = nullptr;
  float* max = nullptr;
  float* sum = nullptr;
};

struct IsaKernels {
  const char* name = "";
  int64_t tile_rows = 0;    // rows of `a` that share a read of the weights
  bool bf16_pairs = false;  // has Arithmetic::kBf16Pairs
  float (*activations)(const ActivationRow&) = nullptr;
  void (*product)(const ProductBlock&) = nullptr;
  void (*attend)(const AttentionBlock&) = nullptr;
};

const IsaKernels& isa_avx2();
const IsaKernels& isa_avx512();
const IsaKernels& isa_avx512_bf16();
const IsaKernels& isa_neon();

// The sets that this build and CPU have, best first; those that cpu_path_enabled() holds back too.
std::vector<std::string> isa_names();
// The one in use; null: the plain versions.
const IsaKernels* isa();
// Uses one of isa_names(), or "plain", or the best again with "". For tests and benchmarks; not
// thread-safe.
void force_isa(const std::string& name);
void force_isa(const IsaKernels& kernels);

}  // namespace plait::cpu::serve
