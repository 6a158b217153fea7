#include <cmath>

#include "device/cpu/float_types.h"
#include "device/cpu/plain/plain_kernels.h"

namespace plait::cpu::plain {
namespace {

float sigmoid(float x) {
  return 1 / (1 + std::exp(-x));
}

}  // namespace

void swiglu_forward(const SwigluForwardArgs& args) {
  with_float_type(args.dtype, [&]<typename T>(T) {
    for (int64_t r = 0; r < args.rows; ++r) {
      const T* gate = args.gate_up.as<T>() + r * 2 * args.cols;
      const T* up = gate + args.cols;
      T* out = args.out.as<T>() + r * args.cols;
      for (int64_t c = 0; c < args.cols; ++c) {
        const float g = to_float(gate[c]);
        out[c] = from_float<T>(g * sigmoid(g) * to_float(up[c]));
      }
    }
  });
}

void swiglu_backward(const SwigluBackwardArgs& args) {
  with_float_type(args.dtype, [&]<typename T>(T) {
    for (int64_t r = 0; r < args.rows; ++r) {
      const T* gate = args.gate_up.as<T>() + r * 2 * args.cols;
      const T* up = gate + args.cols;
      const T* grad_out = args.grad_out.as<T>() + r * args.cols;
      T* grad_gate = args.grad_gate_up.as<T>() + r * 2 * args.cols;
      T* grad_up = grad_gate + args.cols;
      for (int64_t c = 0; c < args.cols; ++c) {
        const float g = to_float(gate[c]);
        const float u = to_float(up[c]);
        const float grad = to_float(grad_out[c]);
        const float s = sigmoid(g);
        grad_gate[c] = from_float<T>(grad * u * (s + g * s * (1 - s)));
        grad_up[c] = from_float<T>(grad * g * s);
      }
    }
  });
}

}  // namespace plait::cpu::plain
