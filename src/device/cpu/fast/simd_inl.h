// Loads, stores and functions that the SIMD kernels share; compiled once per instruction set, so
// the include guard toggles.
#if defined(PLAIT_DEVICE_CPU_FAST_SIMD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PLAIT_DEVICE_CPU_FAST_SIMD_INL_H_
#undef PLAIT_DEVICE_CPU_FAST_SIMD_INL_H_
#else
#define PLAIT_DEVICE_CPU_FAST_SIMD_INL_H_
#endif

#include <hwy/highway.h>

#include "base/dtype.h"

HWY_BEFORE_NAMESPACE();
namespace plait::cpu::fast::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using FloatTag = hn::ScalableTag<float>;
using FloatVec = hn::Vec<FloatTag>;
constexpr FloatTag kF;

HWY_INLINE int64_t lanes() {
  return static_cast<int64_t>(hn::Lanes(kF));
}
HWY_INLINE FloatVec splat(float x) {
  return hn::Set(kF, x);
}

// Vectors of floats from storage of any float type, and back (round to nearest even).
HWY_INLINE FloatVec load(const float* p) {
  return hn::LoadU(kF, p);
}
HWY_INLINE void store(FloatVec x, float* p) {
  hn::StoreU(x, kF, p);
}

HWY_INLINE FloatVec load(const BFloat16* p) {
  const hn::Rebind<uint16_t, FloatTag> d16;
  const hn::Rebind<uint32_t, FloatTag> d32;
  const auto bits = hn::PromoteTo(d32, hn::LoadU(d16, reinterpret_cast<const uint16_t*>(p)));
  return hn::BitCast(kF, hn::ShiftLeft<16>(bits));
}
HWY_INLINE void store(FloatVec x, BFloat16* p) {
  const hn::Rebind<uint16_t, FloatTag> d16;
  const hn::Rebind<uint32_t, FloatTag> d32;
  const hn::Rebind<int32_t, FloatTag> di32;
  const auto bits = hn::BitCast(d32, x);
  const auto high = hn::ShiftRight<16>(bits);
  const auto odd = hn::And(high, hn::Set(d32, 1));
  const auto rounded = hn::ShiftRight<16>(hn::Add(bits, hn::Add(odd, hn::Set(d32, 0x7fff))));
  const auto quiet = hn::Or(high, hn::Set(d32, 0x40));
  const auto result = hn::IfThenElse(hn::RebindMask(d32, hn::IsNaN(x)), quiet, rounded);
  hn::StoreU(hn::DemoteTo(d16, hn::BitCast(di32, result)), d16, reinterpret_cast<uint16_t*>(p));
}

#if HWY_TARGET == HWY_SCALAR
// No conversion instructions: one by one.
HWY_INLINE FloatVec load(const Float16* p) {
  HWY_ALIGN float values[hn::MaxLanes(kF)];
  for (int64_t i = 0; i < lanes(); ++i) {
    values[i] = to_float(p[i]);
  }
  return hn::Load(kF, values);
}
HWY_INLINE void store(FloatVec x, Float16* p) {
  HWY_ALIGN float values[hn::MaxLanes(kF)];
  hn::Store(x, kF, values);
  for (int64_t i = 0; i < lanes(); ++i) {
    p[i] = to_f16(values[i]);
  }
}
#else
HWY_INLINE FloatVec load(const Float16* p) {
  const hn::Rebind<hwy::float16_t, FloatTag> d16;
  return hn::PromoteTo(kF, hn::LoadU(d16, reinterpret_cast<const hwy::float16_t*>(p)));
}
HWY_INLINE void store(FloatVec x, Float16* p) {
  const hn::Rebind<hwy::float16_t, FloatTag> d16;
  hn::StoreU(hn::DemoteTo(d16, x), d16, reinterpret_cast<hwy::float16_t*>(p));
}
#endif

// Value of x after a trip through storage type T.
template <typename T>
HWY_INLINE FloatVec round_through(FloatVec x) {
  if constexpr (sizeof(T) == sizeof(float)) {
    return x;
  } else {
    T values[hn::MaxLanes(kF)];
    store(x, values);
    return load(values);
  }
}

// How a loop body touches memory: whole vectors, or the last `count` elements of a row. Missing
// elements read as zero.
struct WholeVector {
  template <typename T>
  HWY_INLINE FloatVec get(const T* p) const {
    return load(p);
  }
  template <typename T>
  HWY_INLINE void put(FloatVec x, T* p) const {
    store(x, p);
  }
};
struct PartVector {
  int64_t count;
  template <typename T>
  HWY_INLINE FloatVec get(const T* p) const {
    T values[hn::MaxLanes(kF)] = {};
    for (int64_t i = 0; i < count; ++i) {
      values[i] = p[i];
    }
    return load(values);
  }
  template <typename T>
  HWY_INLINE void put(FloatVec x, T* p) const {
    T values[hn::MaxLanes(kF)];
    store(x, values);
    for (int64_t i = 0; i < count; ++i) {
      p[i] = values[i];
    }
  }
};

// body(i, io) for each vector of [0, count).
template <typename Body>
HWY_INLINE void for_each_vector(int64_t count, Body body) {
  const int64_t n = lanes();
  int64_t i = 0;
  for (; i + n <= count; i += n) {
    body(i, WholeVector{});
  }
  if (i < count) {
    body(i, PartVector{count - i});
  }
}

HWY_INLINE float sum_lanes(FloatVec x) {
  return hn::GetLane(hn::SumOfLanes(kF, x));
}
HWY_INLINE float max_lanes(FloatVec x) {
  return hn::GetLane(hn::MaxOfLanes(kF, x));
}

// e^x within 2 ulp; 0 below -87.3, infinite where it overflows; NaN stays NaN. Range reduction by
// ln 2 in two parts and the degree-6 polynomial of Moshier's Cephes library (expf).
HWY_INLINE FloatVec exp(FloatVec x) {
  const hn::Rebind<uint32_t, FloatTag> d32;
  const FloatVec low = splat(-87.33654F);
  // Only the exponent comes from the clamped value: overflow and NaN then show in the polynomial.
  const FloatVec clamped = hn::Min(splat(88.02969F), hn::Max(low, x));
  // Adding 1.5 * 2^23 + 127 rounds to an integer n and leaves n + 127 in the lowest bits.
  const FloatVec shift = splat(12582912.0F + 127.0F);
  const FloatVec shifted = hn::MulAdd(clamped, splat(1.44269504F), shift);
  const FloatVec n = hn::Sub(shifted, shift);
  FloatVec r = hn::NegMulAdd(n, splat(0.693359375F), x);
  r = hn::NegMulAdd(n, splat(-2.12194440e-4F), r);
  FloatVec p = splat(1.9875691500e-4F);
  p = hn::MulAdd(p, r, splat(1.3981999507e-3F));
  p = hn::MulAdd(p, r, splat(8.3334519073e-3F));
  p = hn::MulAdd(p, r, splat(4.1665795894e-2F));
  p = hn::MulAdd(p, r, splat(1.6666665459e-1F));
  p = hn::MulAdd(p, r, splat(5.0000001201e-1F));
  p = hn::MulAdd(p, hn::Mul(r, r), hn::Add(r, splat(1.0F)));
  const FloatVec power = hn::BitCast(kF, hn::ShiftLeft<23>(hn::BitCast(d32, shifted)));
  return hn::IfThenZeroElse(hn::Lt(x, low), hn::Mul(p, power));
}

HWY_INLINE FloatVec sigmoid(FloatVec x) {
  const FloatVec one = splat(1.0F);
  return hn::Div(one, hn::Add(one, exp(hn::Neg(x))));
}

}  // namespace plait::cpu::fast::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // PLAIT_DEVICE_CPU_FAST_SIMD_INL_H_
