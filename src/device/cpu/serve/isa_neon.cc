// Compiled for aarch64, whose baseline has NEON with fused multiply-add.
#include "device/cpu/serve/isa.h"

namespace plait::cpu {
namespace {
constexpr int kLanes = 4;
}  // namespace
}  // namespace plait::cpu

#include "device/cpu/vector.inc"

#include "device/cpu/serve/halves.inc"

namespace plait::cpu::serve {
namespace {
constexpr int kTileRows = 6;
constexpr int kTilePanels = 1;
constexpr int kBf16Rows = 5;
constexpr int kInt16Rows = kTileRows;
constexpr int kMaxSums = 24;
constexpr bool kHasDotBf16 = false;

PLAIT_INLINE IVec dot_int16(IVec sum, IVec a, IVec w) {
  return dot_halves(sum, a, w);
}
PLAIT_INLINE IVec widen_int8(const char* p) {
  return widen_halves(p);
}
PLAIT_INLINE Vec dot_bf16(Vec sum, IVec /*a*/, IVec /*w*/) {
  return sum;
}
}  // namespace
}  // namespace plait::cpu::serve

#include "device/cpu/serve/product.inc"

#include "device/cpu/serve/attention.inc"

namespace plait::cpu::serve {

const IsaKernels& isa_neon() {
  static constexpr IsaKernels kKernels{.name = "neon",
                                       .tile_rows = kTileRows,
                                       .bf16_pairs = kHasDotBf16,
                                       .activations = activations,
                                       .product = product,
                                       .attend = attend};
  return kKernels;
}

}  // namespace plait::cpu::serve
