// Compiled for AVX512 with BF16 and VNNI: vdpbf16ps multiplies two bf16 pairs and adds both
// products to an f32, vpdpwssd does the same for int16.
#include "device/cpu/serve/avx512.inc"

namespace plait::cpu::serve {
namespace {
constexpr bool kHasDotBf16 = true;

PLAIT_INLINE Vec dot_bf16(Vec sum, IVec a, IVec w) {
#if defined(__AVX512BF16__)
  return (Vec)_mm512_dpbf16_ps((__m512)sum, (__m512bh)a, (__m512bh)w);
#else
  sum += (Vec)(a << 16) * (Vec)(w << 16);
  return sum + (Vec)((UVec)a & 0xffff0000U) * (Vec)((UVec)w & 0xffff0000U);
#endif
}
}  // namespace
}  // namespace plait::cpu::serve

#include "device/cpu/serve/product.inc"

#include "device/cpu/serve/attention.inc"

namespace plait::cpu::serve {

const IsaKernels& isa_avx512_bf16() {
  static constexpr IsaKernels kKernels{.name = "avx512_bf16",
                                       .tile_rows = kTileRows,
                                       .bf16_pairs = kHasDotBf16,
                                       .activations = activations,
                                       .product = product,
                                       .attend = attend};
  return kKernels;
}

}  // namespace plait::cpu::serve
