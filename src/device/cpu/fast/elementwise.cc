#include "device/cpu/fast/fast_kernels.h"
#include "device/cpu/fast/scratch.h"
#include "device/cpu/fast/split.h"
#include "device/cpu/fast/targets.h"
#include "device/cpu/float_types.h"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "device/cpu/fast/elementwise.cc"
#include <hwy/foreach_target.h>

#include <hwy/highway.h>

#include "device/cpu/fast/simd_inl.h"

HWY_BEFORE_NAMESPACE();
namespace plait::cpu::fast::HWY_NAMESPACE {
namespace {

template <typename T>
void add_range(const AddArgs& args, int64_t begin, int64_t end) {
  const T* x = args.x.as<T>() + begin;
  const T* other = args.other.as<T>() + begin;
  T* y = args.y.as<T>() + begin;
  for_each_vector(end - begin, [&](int64_t i, auto io) HWY_ATTR {
    io.put(hn::Add(io.get(x + i), io.get(other + i)), y + i);
  });
}

template <typename T>
void add_bias_rows(const AddBiasArgs& args, int64_t begin, int64_t end) {
  const T* bias = args.bias.as<T>();
  for (int64_t r = begin; r < end; ++r) {
    T* x = args.x.as<T>() + r * args.stride;
    for_each_vector(args.cols, [&](int64_t i, auto io) HWY_ATTR {
      io.put(hn::Add(io.get(x + i), io.get(bias + i)), x + i);
    });
  }
}

// Four rows at a time, to load and store the sums less often.
template <typename T>
void sum_columns(const ColumnSumArgs& args, int64_t begin, int64_t end) {
  float* out = args.out.as<float>() + begin;
  int64_t r = 0;
  for (; r + 4 <= args.rows; r += 4) {
    const T* x0 = args.x.as<T>() + r * args.stride + begin;
    const T* x1 = x0 + args.stride;
    const T* x2 = x1 + args.stride;
    const T* x3 = x2 + args.stride;
    for_each_vector(end - begin, [&](int64_t i, auto io) HWY_ATTR {
      const FloatVec sum =
          hn::Add(hn::Add(io.get(x0 + i), io.get(x1 + i)), hn::Add(io.get(x2 + i), io.get(x3 + i)));
      io.put(hn::Add(io.get(out + i), sum), out + i);
    });
  }
  for (; r < args.rows; ++r) {
    const T* x = args.x.as<T>() + r * args.stride + begin;
    for_each_vector(end - begin, [&](int64_t i, auto io) HWY_ATTR {
      io.put(hn::Add(io.get(out + i), io.get(x + i)), out + i);
    });
  }
}

template <typename From, typename To>
void cast_range(const CastArgs& args, int64_t begin, int64_t end) {
  const From* source = args.source.as<From>() + begin;
  To* destination = args.destination.as<To>() + begin;
  for_each_vector(end - begin, [&](int64_t i, auto io)
                                   HWY_ATTR { io.put(io.get(source + i), destination + i); });
}

void scale_range(const ScaleArgs& args, int64_t begin, int64_t end) {
  float* x = args.x.as<float>() + begin;
  for_each_vector(end - begin, [&](int64_t i, auto io) HWY_ATTR {
    io.put(hn::Mul(io.get(x + i), splat(args.factor)), x + i);
  });
}

constexpr int64_t kSumBlock = 16384;

double sum_squares_of(const float* x, int64_t count) {
  const hn::ScalableTag<double> dd;
  const hn::Rebind<float, hn::ScalableTag<double>> df;
  const auto n = static_cast<int64_t>(hn::Lanes(dd));
  auto sum0 = hn::Zero(dd);
  auto sum1 = hn::Zero(dd);
  auto sum2 = hn::Zero(dd);
  auto sum3 = hn::Zero(dd);
  int64_t i = 0;
  for (; i + 4 * n <= count; i += 4 * n) {
    const auto x0 = hn::PromoteTo(dd, hn::LoadU(df, x + i));
    const auto x1 = hn::PromoteTo(dd, hn::LoadU(df, x + i + n));
    const auto x2 = hn::PromoteTo(dd, hn::LoadU(df, x + i + 2 * n));
    const auto x3 = hn::PromoteTo(dd, hn::LoadU(df, x + i + 3 * n));
    sum0 = hn::MulAdd(x0, x0, sum0);
    sum1 = hn::MulAdd(x1, x1, sum1);
    sum2 = hn::MulAdd(x2, x2, sum2);
    sum3 = hn::MulAdd(x3, x3, sum3);
  }
  double sum = hn::GetLane(hn::SumOfLanes(dd, hn::Add(hn::Add(sum0, sum1), hn::Add(sum2, sum3))));
  for (; i < count; ++i) {
    sum += static_cast<double>(x[i]) * x[i];
  }
  return sum;
}

}  // namespace

void add_simd(const AddArgs& args, ThreadPool& pool) {
  with_float_type(args.dtype, [&]<typename T>(T) {
    pool.parallel_for(args.count, kGrainElements,
                      [&](int64_t begin, int64_t end) { add_range<T>(args, begin, end); });
  });
}

void add_bias_simd(const AddBiasArgs& args, ThreadPool& pool) {
  with_float_type(args.dtype, [&]<typename T>(T) {
    pool.parallel_for(args.rows, grain_rows(args.cols),
                      [&](int64_t begin, int64_t end) { add_bias_rows<T>(args, begin, end); });
  });
}

void column_sum_simd(const ColumnSumArgs& args, ThreadPool& pool) {
  const int64_t grain = std::max<int64_t>(16, grain_rows(args.rows));
  with_float_type(args.dtype, [&]<typename T>(T) {
    pool.parallel_for(args.cols, grain,
                      [&](int64_t begin, int64_t end) { sum_columns<T>(args, begin, end); });
  });
}

void cast_simd(const CastArgs& args, ThreadPool& pool) {
  with_float_type(args.source_dtype, [&]<typename From>(From) {
    with_float_type(args.destination_dtype, [&]<typename To>(To) {
      pool.parallel_for(args.count, kGrainElements, [&](int64_t begin, int64_t end) {
        cast_range<From, To>(args, begin, end);
      });
    });
  });
}

void scale_simd(const ScaleArgs& args, ThreadPool& pool) {
  pool.parallel_for(args.count, kGrainElements,
                    [&](int64_t begin, int64_t end) { scale_range(args, begin, end); });
}

void sum_squares_simd(const SumSquaresArgs& args, ThreadPool& pool) {
  const int64_t blocks = (args.count + kSumBlock - 1) / kSumBlock;
  // Room for doubles in the scratch of floats.
  auto* sums = static_cast<double*>(static_cast<void*>(thread_scratch().floats(2 * blocks)));
  pool.parallel_for(blocks, 1, [&](int64_t begin, int64_t end) {
    for (int64_t block = begin; block < end; ++block) {
      const int64_t first = block * kSumBlock;
      sums[block] =
          sum_squares_of(args.x.as<float>() + first, std::min(kSumBlock, args.count - first));
    }
  });
  double sum = 0;
  for (int64_t block = 0; block < blocks; ++block) {
    sum += sums[block];
  }
  *args.out.as<float>() += static_cast<float>(args.weight * sum);
}

}  // namespace plait::cpu::fast::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plait::cpu::fast {

HWY_EXPORT(add_simd);
HWY_EXPORT(add_bias_simd);
HWY_EXPORT(column_sum_simd);
HWY_EXPORT(cast_simd);
HWY_EXPORT(scale_simd);
HWY_EXPORT(sum_squares_simd);

void add(const AddArgs& args, ThreadPool& pool) {
  HWY_DYNAMIC_DISPATCH(add_simd)(args, pool);
}

void add_bias(const AddBiasArgs& args, ThreadPool& pool) {
  HWY_DYNAMIC_DISPATCH(add_bias_simd)(args, pool);
}

void column_sum(const ColumnSumArgs& args, ThreadPool& pool) {
  HWY_DYNAMIC_DISPATCH(column_sum_simd)(args, pool);
}

void cast(const CastArgs& args, ThreadPool& pool) {
  HWY_DYNAMIC_DISPATCH(cast_simd)(args, pool);
}

void scale(const ScaleArgs& args, ThreadPool& pool) {
  HWY_DYNAMIC_DISPATCH(scale_simd)(args, pool);
}

void sum_squares(const SumSquaresArgs& args, ThreadPool& pool) {
  HWY_DYNAMIC_DISPATCH(sum_squares_simd)(args, pool);
}

}  // namespace plait::cpu::fast
#endif  // HWY_ONCE
