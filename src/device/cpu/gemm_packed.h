// The blocked matrix product (Goto & van de Geijn, "Anatomy of High-Performance Matrix
// Multiplication", 2008; Van Zee & van de Geijn, BLIS, 2015): operands are copied into panels that
// the micro-kernel reads in order, in blocks that stay in the caches. The driver (gemm_packed.cc)
// knows no instruction set; each set fills one PackedKernels table from gemm_kernel.inc.
//
// A panel holds `width` rows of op(a) (or columns of op(b)) depth by depth: [depth][width] of f32,
// or [depth/2][width] of bf16 pairs; the last panel is filled up with zeros.
#pragma once

#include <cstdint>

#include "base/dtype.h"

namespace plait {
class ThreadPool;
}

namespace plait::cpu {

struct GemmArgs;

// A block of one operand, width x depth; one of the two strides is 1.
struct PackArgs {
  const void* source = nullptr;
  int64_t width_stride = 0, depth_stride = 0;  // in elements
  int64_t width = 0, depth = 0;
  DType dtype = DType::kF32;
  float* panels = nullptr;  // 64-byte aligned
};

// One block of c: value = a_panels b_panels (+ partial). Unless `last`, the value goes to
// `partial`; else c = value (+ bias) (+ c), rounded to c_dtype. For an f32 c, partial is c itself.
struct BlockArgs {
  const float* a_panels = nullptr;
  const float* b_panels = nullptr;
  int64_t m = 0, n = 0;
  int64_t depth = 0;  // in panel entries: k, or k/2 rounded up for pairs
  float* partial = nullptr;
  int64_t partial_stride = 0;
  bool add_partial = false;
  bool last = true;
  void* c = nullptr;
  int64_t c_stride = 0;
  DType c_dtype = DType::kF32;
  bool add_c = false;           // only with `last`
  const float* bias = nullptr;  // n values, only with `last`; or null
  // For the kernels that read b where it is stored.
  const void* b_stored = nullptr;
  int64_t b_stride = 0;  // in elements
  DType b_dtype = DType::kF32;
  int64_t a_stride = 0;  // only dot: of the rows at a_panels
};

struct PackedKernels {
  int64_t mr = 0, nr = 0;       // widths of the panels of a and b
  int64_t depth_per_entry = 1;  // 2 for bf16 pairs
  int64_t kc = 256;             // depth of a block
  int64_t mc = 264;             // most rows of a in L2 beside a panel of b; a multiple of mr
  int64_t nc = 128;             // most columns of b that are packed at a time, if that transposes
  int64_t wide_nc = 384;        // if it does not: longer reads of the rows of b
  bool bf16_only = false;
  void (*pack_a)(const PackArgs&) = nullptr;
  void (*pack_b)(const PackArgs&) = nullptr;
  void (*block)(const BlockArgs&) = nullptr;
  // Few rows of a do not pay for packing b. Null where the set has none.
  static constexpr int64_t kMostDotRows = 32;
  // As block, but b is [depth, n] at b_stored; b_panels holds the panel of the last n % nr columns.
  void (*stored_block)(const BlockArgs&) = nullptr;
  // As block over the whole of k, but b is [n, depth] at b_stored, and a_panels are f32 rows, at
  // most kMostDotRows.
  void (*dot)(const BlockArgs&) = nullptr;
};

const PackedKernels& packed_kernels_avx2();
const PackedKernels& packed_kernels_avx512();
const PackedKernels& packed_kernels_avx512_bf16();
const PackedKernels& packed_kernels_neon();

// The order of the sums depends on k and the kernels alone, so neither the thread count nor timing
// changes a bit of the result. Buffers (a few MiB) stay with the threads, in thread_local storage.
bool gemm_packed(const PackedKernels& kernels, const GemmArgs& args, ThreadPool& pool);

}  // namespace plait::cpu
