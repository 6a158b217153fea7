// Compiled for AVX512 F, BW, DQ, VL.
#if defined(__AVX512F__)
#include <immintrin.h>
#endif

#include "device/cpu/gemm_packed.h"

namespace plait::cpu {
namespace {
constexpr int kLanes = 16;
constexpr int kMr = 14;
constexpr int kNrVecs = 2;
constexpr bool kPairs = false;

template <typename V>
inline __attribute__((always_inline)) V multiply_add(float a, V b, V acc) {
  return acc + a * b;
}
}  // namespace
}  // namespace plait::cpu

#include "device/cpu/gemm_kernel.inc"

#include "device/cpu/gemm_few_rows.inc"

namespace plait::cpu {

const PackedKernels& packed_kernels_avx512() {
  static constexpr PackedKernels kKernels{.mr = kMr,
                                          .nr = kNr,
                                          .kc = 256,
                                          .mc = 18 * kMr,
                                          .nc = 128,
                                          .pack_a = pack<kMr>,
                                          .pack_b = pack<kNr>,
                                          .block = block,
                                          .stored_block = stored_block,
                                          .dot = dot};
  return kKernels;
}

}  // namespace plait::cpu
