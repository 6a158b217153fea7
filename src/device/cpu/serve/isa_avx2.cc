// Compiled for AVX2 and FMA.
#include <immintrin.h>

#include "device/cpu/serve/isa.h"

namespace plait::cpu {
namespace {
constexpr int kLanes = 8;
}  // namespace
}  // namespace plait::cpu

#include "device/cpu/vector.inc"

namespace plait::cpu::serve {
namespace {
constexpr int kTileRows = 6;
constexpr int kTilePanels = 1;
constexpr int kBf16Rows = 5;
constexpr int kInt16Rows = kTileRows;
constexpr int kMaxSums = 12;
constexpr bool kHasDotBf16 = false;

PLAIT_INLINE IVec dot_int16(IVec sum, IVec a, IVec w) {
  return sum + (IVec)_mm256_madd_epi16((__m256i)a, (__m256i)w);
}
PLAIT_INLINE IVec widen_int8(const char* p) {
  __m128i bytes;
  __builtin_memcpy(&bytes, p, sizeof(bytes));
  return (IVec)_mm256_cvtepi8_epi16(bytes);
}
PLAIT_INLINE Vec dot_bf16(Vec sum, IVec /*a*/, IVec /*w*/) {
  return sum;
}
}  // namespace
}  // namespace plait::cpu::serve

#include "device/cpu/serve/product.inc"

#include "device/cpu/serve/attention.inc"

namespace plait::cpu::serve {

const IsaKernels& isa_avx2() {
  static constexpr IsaKernels kKernels{.name = "avx2",
                                       .tile_rows = kTileRows,
                                       .activations = activations,
                                       .product = product,
                                       .attend = attend};
  return kKernels;
}

}  // namespace plait::cpu::serve
