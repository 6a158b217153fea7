#include <cmath>

#include "device/cpu/float_types.h"
#include "device/cpu/plain/plain_kernels.h"

namespace plait::cpu::plain {
namespace {

template <typename T>
void forward(const RmsNormForwardArgs& args) {
  const T* weight = args.weight.as<T>();
  for (int64_t r = 0; r < args.rows; ++r) {
    for (int64_t g = 0; g < args.groups; ++g) {
      const T* x = args.x.as<T>() + r * args.x_stride + g * args.cols;
      T* y = args.y.as<T>() + r * args.y_stride + g * args.cols;
      double sum = 0;
      for (int64_t c = 0; c < args.cols; ++c) {
        sum += static_cast<double>(to_float(x[c])) * to_float(x[c]);
      }
      const auto rstd =
          static_cast<float>(1 / std::sqrt(sum / static_cast<double>(args.cols) + args.eps));
      args.rstd.as<float>()[r * args.groups + g] = rstd;
      for (int64_t c = 0; c < args.cols; ++c) {
        const float normalised = to_float(from_float<T>(to_float(x[c]) * rstd));
        y[c] = from_float<T>(normalised * to_float(weight[c]));
      }
    }
  }
}

// With xhat = x rstd: dL/dx = rstd (w g - xhat mean(w g xhat)); dL/dw = sum of g xhat.
template <typename T>
void backward(const RmsNormBackwardArgs& args) {
  const T* weight = args.weight.as<T>();
  float* grad_weight = args.grad_weight.as<float>();
  for (int64_t r = 0; r < args.rows; ++r) {
    for (int64_t g = 0; g < args.groups; ++g) {
      const T* x = args.x.as<T>() + r * args.x_stride + g * args.cols;
      const T* grad_y = args.grad_y.as<T>() + r * args.grad_y_stride + g * args.cols;
      T* grad_x = args.grad_x.as<T>() + r * args.grad_x_stride + g * args.cols;
      const float rstd = args.rstd.as<float>()[r * args.groups + g];
      double dot = 0;
      for (int64_t c = 0; c < args.cols; ++c) {
        dot += static_cast<double>(to_float(weight[c])) * to_float(grad_y[c]) * to_float(x[c]);
      }
      const auto mean = static_cast<float>(dot * rstd / static_cast<double>(args.cols));
      for (int64_t c = 0; c < args.cols; ++c) {
        const float grad = to_float(grad_y[c]);
        const float normalised = to_float(x[c]) * rstd;
        grad_weight[c] += grad * to_float(from_float<T>(normalised));
        const float value = rstd * (to_float(weight[c]) * grad - normalised * mean);
        grad_x[c] = from_float<T>(args.accumulate ? to_float(grad_x[c]) + value : value);
      }
    }
  }
}

}  // namespace

void rms_norm_forward(const RmsNormForwardArgs& args) {
  with_float_type(args.dtype, [&]<typename T>(T) { forward<T>(args); });
}

void rms_norm_backward(const RmsNormBackwardArgs& args) {
  with_float_type(args.dtype, [&]<typename T>(T) { backward<T>(args); });
}

}  // namespace plait::cpu::plain
