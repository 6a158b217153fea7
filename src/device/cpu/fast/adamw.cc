#include "device/cpu/fast/fast_kernels.h"
#include "device/cpu/fast/split.h"
#include "device/cpu/fast/targets.h"
#include "device/cpu/float_types.h"

#include <cmath>
#include <type_traits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "device/cpu/fast/adamw.cc"
#include <hwy/foreach_target.h>

#include <hwy/highway.h>

#include "device/cpu/fast/simd_inl.h"

HWY_BEFORE_NAMESPACE();
namespace plait::cpu::fast::HWY_NAMESPACE {
namespace {

struct Factors {
  float grad_scale, beta1, beta2, new_share1, new_share2, decay, step_size, inverse_correction2,
      eps;
};

Factors factors_of(const AdamwArgs& args) {
  const auto step = static_cast<double>(args.step);
  const double correction1 = 1 - std::pow(args.beta1, step);
  const double correction2 = 1 - std::pow(args.beta2, step);
  Factors f{};
  f.grad_scale = args.grad_scale;
  f.beta1 = static_cast<float>(args.beta1);
  f.beta2 = static_cast<float>(args.beta2);
  f.new_share1 = static_cast<float>(1 - args.beta1);
  f.new_share2 = static_cast<float>(1 - args.beta2);
  f.decay = static_cast<float>(1 - args.lr * args.weight_decay);
  f.step_size = static_cast<float>(args.lr / correction1);
  f.inverse_correction2 = static_cast<float>(1 / correction2);
  f.eps = static_cast<float>(args.eps);
  return f;
}

// `Low` is the type of the low-precision copy, void for none.
template <typename Low>
void update(const AdamwArgs& args, const Factors& f, int64_t begin, int64_t end) {
  float* param = args.param.as<float>() + begin;
  const float* grad = args.grad.as<float>() + begin;
  float* exp_avg = args.exp_avg.as<float>() + begin;
  float* exp_avg_sq = args.exp_avg_sq.as<float>() + begin;
  for_each_vector(end - begin, [&](int64_t i, auto io) HWY_ATTR {
    const FloatVec g = hn::Mul(io.get(grad + i), splat(f.grad_scale));
    const FloatVec m =
        hn::MulAdd(g, splat(f.new_share1), hn::Mul(io.get(exp_avg + i), splat(f.beta1)));
    const FloatVec v = hn::MulAdd(hn::Mul(g, splat(f.new_share2)), g,
                                  hn::Mul(io.get(exp_avg_sq + i), splat(f.beta2)));
    const FloatVec root = hn::Sqrt(hn::Mul(v, splat(f.inverse_correction2)));
    const FloatVec step = hn::Div(hn::Mul(m, splat(f.step_size)), hn::Add(root, splat(f.eps)));
    const FloatVec p = hn::MulSub(io.get(param + i), splat(f.decay), step);
    io.put(m, exp_avg + i);
    io.put(v, exp_avg_sq + i);
    io.put(p, param + i);
    if constexpr (!std::is_void_v<Low>) {
      io.put(p, args.low_precision.as<Low>() + begin + i);
    }
  });
}

}  // namespace

void adamw_simd(const AdamwArgs& args, ThreadPool& pool) {
  const Factors factors = factors_of(args);
  const auto run = [&](auto update_range) {
    pool.parallel_for(args.count, kGrainElements / 4,
                      [&](int64_t begin, int64_t end) { update_range(args, factors, begin, end); });
  };
  if (args.low_precision) {
    with_float_type(args.low_precision_dtype, [&]<typename Low>(Low) { run(update<Low>); });
  } else {
    run(update<void>);
  }
}

}  // namespace plait::cpu::fast::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plait::cpu::fast {

HWY_EXPORT(adamw_simd);

void adamw(const AdamwArgs& args, ThreadPool& pool) {
  HWY_DYNAMIC_DISPATCH(adamw_simd)(args, pool);
}

}  // namespace plait::cpu::fast
#endif  // HWY_ONCE
