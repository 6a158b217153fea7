// Compiled for AVX512 with BF16: vdpbf16ps multiplies two bf16 pairs and adds both products to an
// f32. Without that instruction (in the tests) the same sums come from shifts and products.
#if defined(__AVX512BF16__)
#include <immintrin.h>
#endif

#include "device/cpu/gemm_packed.h"

namespace plait::cpu {
namespace {
constexpr int kLanes = 16;
constexpr int kMr = 14;
constexpr int kNrVecs = 2;
constexpr bool kPairs = true;

template <typename V>
inline __attribute__((always_inline)) V multiply_add(float a, V b, V acc) {
#if defined(__AVX512BF16__)
  return (V)_mm512_dpbf16_ps((__m512)acc, (__m512bh)_mm512_set1_ps(a), (__m512bh)b);
#else
  // NOLINTNEXTLINE(modernize-use-using): as in vector.inc
  typedef uint32_t Bits __attribute__((vector_size(kLanes * 4)));
  uint32_t pair;
  __builtin_memcpy(&pair, &a, 4);
  const Bits a_bits = Bits{} + pair;
  const Bits b_bits = (Bits)b;
  acc += (V)(a_bits << 16) * (V)(b_bits << 16);
  return acc + (V)(a_bits & 0xffff0000U) * (V)(b_bits & 0xffff0000U);
#endif
}
}  // namespace
}  // namespace plait::cpu

#include "device/cpu/gemm_kernel.inc"

namespace plait::cpu {

const PackedKernels& packed_kernels_avx512_bf16() {
  static constexpr PackedKernels kKernels{.mr = kMr,
                                          .nr = kNr,
                                          .depth_per_entry = 2,
                                          .kc = 512,
                                          .mc = 18 * kMr,
                                          .nc = 128,
                                          .bf16_only = true,
                                          .pack_a = pack<kMr>,
                                          .pack_b = pack<kNr>,
                                          .block = block};
  return kKernels;
}

}  // namespace plait::cpu
