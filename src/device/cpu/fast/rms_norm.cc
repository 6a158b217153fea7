#include "device/cpu/fast/fast_kernels.h"
#include "device/cpu/fast/scratch.h"
#include "device/cpu/fast/split.h"
#include "device/cpu/fast/targets.h"
#include "device/cpu/float_types.h"

#include <algorithm>
#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "device/cpu/fast/rms_norm.cc"
#include <hwy/foreach_target.h>

#include <hwy/highway.h>

#include "device/cpu/fast/simd_inl.h"

HWY_BEFORE_NAMESPACE();
namespace plait::cpu::fast::HWY_NAMESPACE {
namespace {

template <typename T>
HWY_INLINE FloatVec sum_squares_of(const T* x, int64_t count) {
  FloatVec sum = splat(0);
  for_each_vector(count, [&](int64_t i, auto io) HWY_ATTR {
    const FloatVec v = io.get(x + i);
    sum = hn::MulAdd(v, v, sum);
  });
  return sum;
}

template <typename T>
void forward_rows(const RmsNormForwardArgs& args, int64_t begin, int64_t end) {
  const T* weight = args.weight.as<T>();
  for (int64_t r = begin; r < end; ++r) {
    for (int64_t g = 0; g < args.groups; ++g) {
      const T* x = args.x.as<T>() + r * args.x_stride + g * args.cols;
      T* y = args.y.as<T>() + r * args.y_stride + g * args.cols;
      const float mean = sum_lanes(sum_squares_of(x, args.cols)) / static_cast<float>(args.cols);
      const float rstd = 1 / std::sqrt(mean + args.eps);
      args.rstd.as<float>()[r * args.groups + g] = rstd;
      for_each_vector(args.cols, [&](int64_t i, auto io) HWY_ATTR {
        const FloatVec normalised = round_through<T>(hn::Mul(io.get(x + i), splat(rstd)));
        io.put(hn::Mul(normalised, io.get(weight + i)), y + i);
      });
    }
  }
}

// One group of one row; adds this row's share to grad_weight.
template <typename T>
void backward_row(const RmsNormBackwardArgs& args, int64_t row, int64_t group, float* grad_weight) {
  const T* weight = args.weight.as<T>();
  const T* x = args.x.as<T>() + row * args.x_stride + group * args.cols;
  const T* grad_y = args.grad_y.as<T>() + row * args.grad_y_stride + group * args.cols;
  T* grad_x = args.grad_x.as<T>() + row * args.grad_x_stride + group * args.cols;
  const float rstd = args.rstd.as<float>()[row * args.groups + group];
  FloatVec dot = splat(0);
  for_each_vector(args.cols, [&](int64_t i, auto io) HWY_ATTR {
    dot = hn::MulAdd(hn::Mul(io.get(weight + i), io.get(grad_y + i)), io.get(x + i), dot);
  });
  const float mean = sum_lanes(dot) * rstd / static_cast<float>(args.cols);
  for_each_vector(args.cols, [&](int64_t i, auto io) HWY_ATTR {
    const FloatVec grad = io.get(grad_y + i);
    const FloatVec normalised = hn::Mul(io.get(x + i), splat(rstd));
    io.put(hn::MulAdd(grad, round_through<T>(normalised), io.get(grad_weight + i)),
           grad_weight + i);
    FloatVec value = hn::NegMulAdd(normalised, splat(mean), hn::Mul(io.get(weight + i), grad));
    value = hn::Mul(value, splat(rstd));
    io.put(args.accumulate ? hn::Add(io.get(grad_x + i), value) : value, grad_x + i);
  });
}

// Rows are cut into at most kMaxBlocks blocks whatever the number of threads; each block sums its
// share of grad_weight, then the shares are added in order.
constexpr int64_t kMaxBlocks = 32;
constexpr int64_t kMinBlockRows = 16;

template <typename T>
void backward(const RmsNormBackwardArgs& args, ThreadPool& pool) {
  const int64_t block_rows = std::max(kMinBlockRows, (args.rows + kMaxBlocks - 1) / kMaxBlocks);
  const int64_t blocks = (args.rows + block_rows - 1) / block_rows;
  float* shares = thread_scratch().floats(blocks * args.cols);
  pool.parallel_for(blocks, 1, [&](int64_t begin, int64_t end) {
    std::fill(shares + begin * args.cols, shares + end * args.cols, 0.0F);
    for (int64_t block = begin; block < end; ++block) {
      const int64_t last = std::min(args.rows, (block + 1) * block_rows);
      for (int64_t r = block * block_rows; r < last; ++r) {
        for (int64_t g = 0; g < args.groups; ++g) {
          backward_row<T>(args, r, g, shares + block * args.cols);
        }
      }
    }
  });
  float* grad_weight = args.grad_weight.as<float>();
  for (int64_t block = 0; block < blocks; ++block) {
    const float* share = shares + block * args.cols;
    for_each_vector(args.cols, [&](int64_t i, auto io) HWY_ATTR {
      io.put(hn::Add(io.get(grad_weight + i), io.get(share + i)), grad_weight + i);
    });
  }
}

}  // namespace

void rms_norm_forward_simd(const RmsNormForwardArgs& args, ThreadPool& pool) {
  with_float_type(args.dtype, [&]<typename T>(T) {
    pool.parallel_for(args.rows, grain_rows(args.groups * args.cols),
                      [&](int64_t begin, int64_t end) { forward_rows<T>(args, begin, end); });
  });
}

void rms_norm_backward_simd(const RmsNormBackwardArgs& args, ThreadPool& pool) {
  with_float_type(args.dtype, [&]<typename T>(T) { backward<T>(args, pool); });
}

}  // namespace plait::cpu::fast::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plait::cpu::fast {

HWY_EXPORT(rms_norm_forward_simd);
HWY_EXPORT(rms_norm_backward_simd);

void rms_norm_forward(const RmsNormForwardArgs& args, ThreadPool& pool) {
  HWY_DYNAMIC_DISPATCH(rms_norm_forward_simd)(args, pool);
}

void rms_norm_backward(const RmsNormBackwardArgs& args, ThreadPool& pool) {
  HWY_DYNAMIC_DISPATCH(rms_norm_backward_simd)(args, pool);
}

}  // namespace plait::cpu::fast
#endif  // HWY_ONCE
