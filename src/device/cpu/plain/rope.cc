#include "device/cpu/float_types.h"
#include "device/cpu/plain/plain_kernels.h"

namespace plait::cpu::plain {
namespace {

template <typename T>
void rotate(const RopeArgs& args) {
  const int64_t half = args.head_dim / 2;
  for (int64_t r = 0; r < args.rows; ++r) {
    const float* cos = args.cos.as<float>() + r % args.seq_len * half;
    const float* sin = args.sin.as<float>() + r % args.seq_len * half;
    for (int64_t h = 0; h < args.heads; ++h) {
      T* x = args.x.as<T>() + r * args.x_stride + h * args.head_dim;
      for (int64_t i = 0; i < half; ++i) {
        const float first = to_float(x[i]);
        const float second = to_float(x[i + half]);
        const float s = args.inverse ? -sin[i] : sin[i];
        x[i] = from_float<T>(first * cos[i] - second * s);
        x[i + half] = from_float<T>(second * cos[i] + first * s);
      }
    }
  }
}

}  // namespace

void rope(const RopeArgs& args) {
  with_float_type(args.dtype, [&]<typename T>(T) { rotate<T>(args); });
}

}  // namespace plait::cpu::plain
