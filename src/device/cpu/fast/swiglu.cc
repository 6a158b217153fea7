#include "device/cpu/fast/fast_kernels.h"
#include "device/cpu/fast/split.h"
#include "device/cpu/fast/targets.h"
#include "device/cpu/float_types.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "device/cpu/fast/swiglu.cc"
#include <hwy/foreach_target.h>

#include <hwy/highway.h>

#include "device/cpu/fast/simd_inl.h"

HWY_BEFORE_NAMESPACE();
namespace plait::cpu::fast::HWY_NAMESPACE {
namespace {

template <typename T>
void forward_rows(const SwigluForwardArgs& args, int64_t begin, int64_t end) {
  for (int64_t r = begin; r < end; ++r) {
    const T* gate = args.gate_up.as<T>() + r * 2 * args.cols;
    const T* up = gate + args.cols;
    T* out = args.out.as<T>() + r * args.cols;
    for_each_vector(args.cols, [&](int64_t i, auto io) HWY_ATTR {
      const FloatVec g = io.get(gate + i);
      io.put(hn::Mul(hn::Mul(g, sigmoid(g)), io.get(up + i)), out + i);
    });
  }
}

// With s = sigmoid(g): d silu/dg = s + g s (1 - s).
template <typename T>
void backward_rows(const SwigluBackwardArgs& args, int64_t begin, int64_t end) {
  for (int64_t r = begin; r < end; ++r) {
    const T* gate = args.gate_up.as<T>() + r * 2 * args.cols;
    const T* up = gate + args.cols;
    const T* grad_out = args.grad_out.as<T>() + r * args.cols;
    T* grad_gate = args.grad_gate_up.as<T>() + r * 2 * args.cols;
    T* grad_up = grad_gate + args.cols;
    for_each_vector(args.cols, [&](int64_t i, auto io) HWY_ATTR {
      const FloatVec g = io.get(gate + i);
      const FloatVec u = io.get(up + i);
      const FloatVec grad = io.get(grad_out + i);
      const FloatVec s = sigmoid(g);
      const FloatVec silu = hn::Mul(g, s);
      const FloatVec slope = hn::NegMulAdd(silu, s, hn::Add(s, silu));
      io.put(hn::Mul(hn::Mul(grad, u), slope), grad_gate + i);
      io.put(hn::Mul(grad, silu), grad_up + i);
    });
  }
}

}  // namespace

void swiglu_forward_simd(const SwigluForwardArgs& args, ThreadPool& pool) {
  with_float_type(args.dtype, [&]<typename T>(T) {
    pool.parallel_for(args.rows, grain_rows(args.cols * 4),
                      [&](int64_t begin, int64_t end) { forward_rows<T>(args, begin, end); });
  });
}

void swiglu_backward_simd(const SwigluBackwardArgs& args, ThreadPool& pool) {
  with_float_type(args.dtype, [&]<typename T>(T) {
    pool.parallel_for(args.rows, grain_rows(args.cols * 4),
                      [&](int64_t begin, int64_t end) { backward_rows<T>(args, begin, end); });
  });
}

}  // namespace plait::cpu::fast::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plait::cpu::fast {

HWY_EXPORT(swiglu_forward_simd);
HWY_EXPORT(swiglu_backward_simd);

void swiglu_forward(const SwigluForwardArgs& args, ThreadPool& pool) {
  HWY_DYNAMIC_DISPATCH(swiglu_forward_simd)(args, pool);
}

void swiglu_backward(const SwigluBackwardArgs& args, ThreadPool& pool) {
  HWY_DYNAMIC_DISPATCH(swiglu_backward_simd)(args, pool);
}

}  // namespace plait::cpu::fast
#endif  // HWY_ONCE
