// Compiled for AVX512 (F, BW, DQ, VL).
#include "device/cpu/serve/avx512.inc"

namespace plait::cpu::serve {
namespace {
constexpr bool kHasDotBf16 = false;

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
