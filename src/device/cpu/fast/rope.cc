#include "device/cpu/fast/fast_kernels.h"
#include "device/cpu/fast/split.h"
#include "device/cpu/fast/targets.h"
#include "device/cpu/float_types.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "device/cpu/fast/rope.cc"
#include <hwy/foreach_target.h>

#include <hwy/highway.h>

#include "device/cpu/fast/simd_inl.h"

HWY_BEFORE_NAMESPACE();
namespace plait::cpu::fast::HWY_NAMESPACE {
namespace {

template <typename T>
void rotate_rows(const RopeArgs& args, int64_t begin, int64_t end) {
  const int64_t half = args.head_dim / 2;
  const FloatVec sign = splat(args.inverse ? -1.0F : 1.0F);
  for (int64_t r = begin; r < end; ++r) {
    const float* cos = args.cos.as<float>() + r % args.seq_len * half;
    const float* sin = args.sin.as<float>() + r % args.seq_len * half;
    for (int64_t h = 0; h < args.heads; ++h) {
      T* first = args.x.as<T>() + r * args.x_stride + h * args.head_dim;
      T* second = first + half;
      for_each_vector(half, [&](int64_t i, auto io) HWY_ATTR {
        const FloatVec a = io.get(first + i);
        const FloatVec b = io.get(second + i);
        const FloatVec c = io.get(cos + i);
        const FloatVec s = hn::Mul(io.get(sin + i), sign);
        io.put(hn::NegMulAdd(b, s, hn::Mul(a, c)), first + i);
        io.put(hn::MulAdd(a, s, hn::Mul(b, c)), second + i);
      });
    }
  }
}

}  // namespace

void rope_simd(const RopeArgs& args, ThreadPool& pool) {
  with_float_type(args.dtype, [&]<typename T>(T) {
    pool.parallel_for(args.rows, grain_rows(args.heads * args.head_dim),
                      [&](int64_t begin, int64_t end) { rotate_rows<T>(args, begin, end); });
  });
}

}  // namespace plait::cpu::fast::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plait::cpu::fast {

HWY_EXPORT(rope_simd);

void rope(const RopeArgs& args, ThreadPool& pool) {
  HWY_DYNAMIC_DISPATCH(rope_simd)(args, pool);
}

}  // namespace plait::cpu::fast
#endif  // HWY_ONCE
