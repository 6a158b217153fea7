#include <cmath>

#include "device/cpu/float_types.h"
#include "device/cpu/plain/plain_kernels.h"

namespace plait::cpu::plain {

void adamw(const AdamwArgs& args) {
  const auto step = static_cast<double>(args.step);
  const auto correction1 = static_cast<float>(1 - std::pow(args.beta1, step));
  const auto correction2 = static_cast<float>(1 - std::pow(args.beta2, step));
  const auto beta1 = static_cast<float>(args.beta1);
  const auto beta2 = static_cast<float>(args.beta2);
  const auto new_share1 = static_cast<float>(1 - args.beta1);
  const auto new_share2 = static_cast<float>(1 - args.beta2);
  const auto decay = static_cast<float>(1 - args.lr * args.weight_decay);
  const auto lr = static_cast<float>(args.lr);
  const auto eps = static_cast<float>(args.eps);
  float* param = args.param.as<float>();
  const float* grad = args.grad.as<float>();
  float* exp_avg = args.exp_avg.as<float>();
  float* exp_avg_sq = args.exp_avg_sq.as<float>();
  for (int64_t i = 0; i < args.count; ++i) {
    const float g = grad[i] * args.grad_scale;
    exp_avg[i] = beta1 * exp_avg[i] + new_share1 * g;
    exp_avg_sq[i] = beta2 * exp_avg_sq[i] + new_share2 * g * g;
    const float denominator = std::sqrt(exp_avg_sq[i] / correction2) + eps;
    param[i] = param[i] * decay - lr * (exp_avg[i] / correction1) / denominator;
  }
  if (args.low_precision) {
    with_float_type(args.low_precision_dtype, [&]<typename T>(T) {
      for (int64_t i = 0; i < args.count; ++i) {
        args.low_precision.as<T>()[i] = from_float<T>(param[i]);
      }
    });
  }
}

}  // namespace plait::cpu::plain
