// Compiled for aarch64, whose baseline has NEON with fused multiply-add.
#include "device/cpu/serve/isa.h"

namespace plait::cpu {
namespace {
constexpr int kLanes = 4;
}  // namespace
}  // namespace plait::cpu

#include "device/cpu/vector.inc"

namespace plait::cpu::serve {
namespace {
constexpr int kTileRows = 6;
constexpr int kTilePanels = 1;
constexpr int kBf16Rows = 5;
constexpr int kMaxSums = 24;
constexpr bool kHasDotBf16 = false;

PLAIT_INLINE IVec dot_int16(IVec sum, IVec a, IVec w) {
  return sum + ((a << 16) >> 16) * ((w << 16) >> 16) + (a >> 16) * (w >> 16);
}
PLAIT_INLINE IVec widen_int8(const char* p) {
  const IVec pairs = __builtin_convertvector(load_half(p), IVec);
  return (((pairs << 24) >> 24) & 0xffff) | ((pairs << 16) >> 24) << 16;
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
