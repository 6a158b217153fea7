// The single measurements of a calibration. Internal to calibrate/.
#pragma once

#include <algorithm>
#include <cmath>

#include "base/clock.h"
#include "calibrate/fit.h"
#include "comm/process_group.h"
#include "device/device.h"
#include "topology/cluster.h"

namespace plait {

inline constexpr int64_t kF32Bytes = 4;

struct MeasureBudget {
  double seconds = 0.05;     // of one measurement
  int64_t tokens = 512;      // of a micro-batch
  int64_t largest = 1024;    // side of a square product
  int64_t ring_bytes = 0;    // operands that come from memory are taken in turn from so many bytes
  int64_t stream_count = 0;  // elements of the optimizer's arrays
  int64_t message = 0;       // largest message, bytes
};

// Seconds of one call: the least over batches of calls, each long enough for the clock, during
// `budget_s`.
template <typename Run>
double least_seconds(double budget_s, Run run) {
  constexpr double kBatchS = 20e-6;
  constexpr double kLongest = 1000;
  run();
  double begin = now_s();
  run();
  const double once = std::max(now_s() - begin, 1e-9);
  const int calls = static_cast<int>(std::clamp(std::ceil(kBatchS / once), 1.0, kLongest));
  double least = once;
  const double start = now_s();
  for (int batch = 0; batch < 3 || now_s() - start < budget_s; ++batch) {
    begin = now_s();
    for (int i = 0; i < calls; ++i) {
      run();
    }
    least = std::min(least, (now_s() - begin) / calls);
  }
  return least;
}

struct GemmFit {
  double peak = 0;        // FLOP/s of the best product
  double efficiency = 0;  // see Chip::gemm_efficiency
  double half_flops = 0;
  double weight_bandwidth = 0;  // bytes/s; see Chip::gemm_weight_bandwidth; 0: too fast to tell
};
// The three products of a layer's linear maps (forward, both backward), by shape.
GemmFit measure_gemm(Device& device, const MeasureBudget& budget);
// FLOP/s of a large product of this type.
double measure_peak(Device& device, DType dtype, const MeasureBudget& budget);

// FLOP/s of causal attention, forward and backward, as the planner counts them.
double measure_attention(Device& device, const MeasureBudget& budget);

struct ElementwiseFit {
  double fastest = 0;  // bytes/s of the fastest kernel
  double layer = 0;    // bytes/s of a layer's kernels together, traffic as the planner counts it
};
ElementwiseFit measure_elementwise(Device& device, const MeasureBudget& budget);

// Seconds of a kernel that does nothing much.
double measure_launch(Device& device, const MeasureBudget& budget);

// bytes/s of AdamW on this rank while every rank of the group runs it. Collective.
double measure_stream(Device& device, ProcessGroup& group, const MeasureBudget& budget);

// Seconds of a few kernels of a layer while every rank of the group runs them. Collective.
double measure_layer(Device& device, ProcessGroup& group, const MeasureBudget& budget);

// Collectives and messages of the group by size. Collective; rank 0 has the result.
Link measure_link(Device& device, ProcessGroup& group, const MeasureBudget& budget);

}  // namespace plait
