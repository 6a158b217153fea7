// Compiled for AVX512 (F, BW, DQ, VL).
#if defined(__AVX512BW__)
#include <immintrin.h>
#endif

#include "device/cpu/serve/isa.h"

namespace plait::cpu {
namespace {
constexpr int kLanes = 16;
}  // namespace
}  // namespace plait::cpu

#include "device/cpu/vector.inc"

namespace plait::cpu::serve {
namespace {
constexpr int kTileRows = 12;
constexpr int kTilePanels = 2;
constexpr int kBf16Rows = 12;
constexpr int kMaxSums = 24;
constexpr bool kHasDotBf16 = false;

// As two 16-bit halves, where the instruction is missing (in the tests).
PLAIT_INLINE IVec dot_int16(IVec sum, IVec a, IVec w) {
#if defined(__AVX512BW__)
  return sum + (IVec)_mm512_madd_epi16((__m512i)a, (__m512i)w);
#else
  return sum + ((a << 16) >> 16) * ((w << 16) >> 16) + (a >> 16) * (w >> 16);
#endif
}
PLAIT_INLINE IVec widen_int8(const char* p) {
#if defined(__AVX512BW__)
  __m256i bytes;
  __builtin_memcpy(&bytes, p, sizeof(bytes));
  return (IVec)_mm512_cvtepi8_epi16(bytes);
#else
  const IVec pairs = __builtin_convertvector(load_half(p), IVec);
  return (((pairs << 24) >> 24) & 0xffff) | ((pairs << 16) >> 24) << 16;
#endif
}
PLAIT_INLINE Vec dot_bf16(Vec sum, IVec /*a*/, IVec /*w*/) {
  return sum;
}
}  // namespace
}  // namespace plait::cpu::serve

#include "device/cpu/serve/product.inc"

#include "device/cpu/serve/attention.inc"

namespace plait::cpu::serve {

const IsaKernels& isa_avx512() {
  static constexpr IsaKernels kKernels{.name = "avx512",
                                       .tile_rows = kTileRows,
                                       .bf16_pairs = kHasDotBf16,
                                       .activations = activations,
                                       .product = product,
                                       .attend = attend};
  return kKernels;
}

}  // namespace plait::cpu::serve
