// Compiled for aarch64, whose baseline has NEON with fused multiply-add.
#include "device/cpu/gemm_packed.h"

namespace plait::cpu {
namespace {
constexpr int kLanes = 4;
constexpr int kMr = 8;
constexpr int kNrVecs = 3;
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

const PackedKernels& packed_kernels_neon() {
  static constexpr PackedKernels kKernels{.mr = kMr,
                                          .nr = kNr,
                                          .kc = 256,
                                          .mc = 32 * kMr,
                                          .nc = 120,
                                          .pack_a = pack<kMr>,
                                          .pack_b = pack<kNr>,
                                          .block = block,
                                          .stored_block = stored_block,
                                          .dot = dot};
  return kKernels;
}

}  // namespace plait::cpu
