#include "train/gemm_peak.h"

#include <algorithm>

#include "base/clock.h"
#include "op/linear.h"

namespace plait {

namespace {

double best_flops(Device& device, DType dtype) {
  constexpr int64_t kSize = 1024;
  constexpr double kFlops = 2.0 * kSize * kSize * kSize;
  constexpr double kBudgetS = 0.25;
  const auto make = [&] {
    Tensor tensor(device, {kSize, kSize}, dtype, MemoryCategory::kWorkspace);
    device.stream().zero(tensor.ptr(), tensor.bytes());
    return tensor;
  };
  const Tensor x = make();
  const Tensor w = make();
  Tensor y = make();
  double best_s = 1e30;
  const double start = now_s();
  do {
    const double begin = now_s();
    linear_forward(x, w, {}, y);
    device.stream().synchronize();
    best_s = std::min(best_s, now_s() - begin);
  } while (now_s() - start < kBudgetS);
  return kFlops / best_s;
}

}  // namespace

double measure_gemm_peak(Device& device, DType dtype) {
  const double flops = best_flops(device, dtype);
  device.ledger().reset_peaks();  // the run's peaks, not ours
  return flops;
}

}  // namespace plait
