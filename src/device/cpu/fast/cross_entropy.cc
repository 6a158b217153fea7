#include "device/cpu/fast/fast_kernels.h"
#include "device/cpu/fast/split.h"
#include "device/cpu/fast/targets.h"
#include "device/cpu/float_types.h"

#include <algorithm>
#include <cmath>
#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "device/cpu/fast/cross_entropy.cc"
#include <hwy/foreach_target.h>

#include <hwy/highway.h>

#include "device/cpu/fast/simd_inl.h"

HWY_BEFORE_NAMESPACE();
namespace plait::cpu::fast::HWY_NAMESPACE {
namespace {

// Four independent chains hide the latency of the operation.
constexpr int64_t kChains = 4;

template <typename T>
float max_of_row(const T* row, int64_t cols) {
  const int64_t n = lanes();
  FloatVec max0 = splat(-std::numeric_limits<float>::infinity());
  FloatVec max1 = max0;
  FloatVec max2 = max0;
  FloatVec max3 = max0;
  int64_t i = 0;
  for (; i + kChains * n <= cols; i += kChains * n) {
    max0 = hn::Max(load(row + i), max0);
    max1 = hn::Max(load(row + i + n), max1);
    max2 = hn::Max(load(row + i + 2 * n), max2);
    max3 = hn::Max(load(row + i + 3 * n), max3);
  }
  float max = max_lanes(hn::Max(hn::Max(max0, max1), hn::Max(max2, max3)));
  for (; i < cols; ++i) {
    max = std::max(max, to_float(row[i]));
  }
  return max;
}

// Lane sums are short and then added up in double.
constexpr int64_t kSumCols = 4096;

template <typename T>
float sum_exp_of_row(const T* row, int64_t cols, float max) {
  double total = 0;
  for (int64_t begin = 0; begin < cols; begin += kSumCols) {
    const T* part = row + begin;
    const int64_t count = std::min(kSumCols, cols - begin);
    FloatVec sum = splat(0);
    const int64_t whole = count / lanes() * lanes();
    for (int64_t i = 0; i < whole; i += lanes()) {
      sum = hn::Add(sum, exp(hn::Sub(load(part + i), splat(max))));
    }
    total += sum_lanes(sum);
    if (whole < count) {
      float rest[hn::MaxLanes(kF)];
      store(exp(hn::Sub(PartVector{count - whole}.get(part + whole), splat(max))), rest);
      for (int64_t i = whole; i < count; ++i) {
        total += rest[i - whole];
      }
    }
  }
  return static_cast<float>(total);
}

template <typename T>
void backward_row(const CrossEntropyBackwardArgs& args, int64_t r) {
  T* row = args.logits.as<T>() + r * args.stride;
  const int32_t id = args.targets.as<int32_t>()[r];
  if (id < 0) {
    std::fill_n(row, args.padded_cols, T{});
    return;
  }
  const int64_t target = id - args.vocab_begin;
  const bool here = target >= 0 && target < args.cols;
  const float target_logit = here ? to_float(row[target]) : 0;
  const FloatVec max = splat(args.max.as<float>()[r]);
  const FloatVec factor = splat(args.scale / args.stats.as<float>()[r]);
  for_each_vector(args.cols, [&](int64_t i, auto io) HWY_ATTR {
    io.put(hn::Mul(exp(hn::Sub(io.get(row + i), max)), factor), row + i);
  });
  if (here) {
    const FloatVec softmax = hn::Mul(exp(hn::Sub(splat(target_logit), max)), factor);
    row[target] = from_float<T>(hn::GetLane(softmax) - args.scale);
  }
  std::fill(row + args.cols, row + args.padded_cols, T{});
}

}  // namespace

void row_max_simd(const RowMaxArgs& args, ThreadPool& pool) {
  with_float_type(args.dtype, [&]<typename T>(T) {
    pool.parallel_for(args.rows, grain_rows(args.cols), [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        args.max.as<float>()[r] = max_of_row(args.logits.as<T>() + r * args.stride, args.cols);
      }
    });
  });
}

void sum_exp_simd(const SumExpArgs& args, ThreadPool& pool) {
  float* sums = args.stats.as<float>();
  float* target_logits = sums + args.rows;
  with_float_type(args.dtype, [&]<typename T>(T) {
    pool.parallel_for(args.rows, grain_rows(args.cols), [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        const T* row = args.logits.as<T>() + r * args.stride;
        sums[r] = sum_exp_of_row(row, args.cols, args.max.as<float>()[r]);
        const int32_t id = args.targets.as<int32_t>()[r];
        const int64_t target = id - args.vocab_begin;
        const bool here = id >= 0 && target >= 0 && target < args.cols;
        target_logits[r] = here ? to_float(row[target]) : 0;
      }
    });
  });
}

void cross_entropy_backward_simd(const CrossEntropyBackwardArgs& args, ThreadPool& pool) {
  with_float_type(args.dtype, [&]<typename T>(T) {
    pool.parallel_for(args.rows, grain_rows(args.cols), [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        backward_row<T>(args, r);
      }
    });
  });
}

}  // namespace plait::cpu::fast::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plait::cpu::fast {

HWY_EXPORT(row_max_simd);
HWY_EXPORT(sum_exp_simd);
HWY_EXPORT(cross_entropy_backward_simd);

void row_max(const RowMaxArgs& args, ThreadPool& pool) {
  HWY_DYNAMIC_DISPATCH(row_max_simd)(args, pool);
}

void sum_exp(const SumExpArgs& args, ThreadPool& pool) {
  HWY_DYNAMIC_DISPATCH(sum_exp_simd)(args, pool);
}

void cross_entropy_backward(const CrossEntropyBackwardArgs& args, ThreadPool& pool) {
  HWY_DYNAMIC_DISPATCH(cross_entropy_backward_simd)(args, pool);
}

}  // namespace plait::cpu::fast
#endif  // HWY_ONCE
