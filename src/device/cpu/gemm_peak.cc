#include <algorithm>
#include <vector>

#include "base/clock.h"
#include "device/cpu/gemm.h"

namespace plait::cpu {

double measure_gemm_peak(DType dtype, ThreadPool& pool) {
  constexpr int64_t kSize = 1024;
  constexpr double kSeconds = 0.3;
  // Zeros have the speed of any other finite values.
  const auto bytes = static_cast<size_t>(kSize * kSize * dtype_size(dtype));
  std::vector<char> a(bytes);
  std::vector<char> b(bytes);
  std::vector<float> c(static_cast<size_t>(kSize * kSize));
  GemmArgs args;
  args.a = a.data();
  args.b = b.data();
  args.c = c.data();
  args.m = args.n = args.k = kSize;
  args.a_stride = args.b_stride = args.c_stride = kSize;
  args.input_dtype = dtype;
  gemm(args, pool);
  double best = 0;
  const double start = now_s();
  do {
    const double begin = now_s();
    gemm(args, pool);
    best = std::max(best, 2.0 * kSize * kSize * kSize / (now_s() - begin));
  } while (now_s() - start < kSeconds);
  return best;
}

}  // namespace plait::cpu
