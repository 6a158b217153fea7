#include <vector>

#include "calibrate/measure.h"
#include "tensor/tensor.h"

namespace plait {
namespace {

// Seconds of one call when all ranks call it together.
template <typename Run>
double together_seconds(ProcessGroup& group, double budget_s, int64_t bytes, Run run) {
  // Ranks must agree on the number of calls: it follows from the size alone.
  constexpr double kAssumedBandwidth = 2e9;
  constexpr double kAssumedLatency = 5e-6;
  const double guess = kAssumedLatency + static_cast<double>(bytes) / kAssumedBandwidth;
  const int calls = static_cast<int>(std::clamp(100e-6 / guess, 1.0, 50.0));
  const int batches = static_cast<int>(std::clamp(budget_s / (guess * calls), 5.0, 300.0));
  run();
  double least = 1e30;
  for (int batch = 0; batch < batches; ++batch) {
    group.barrier();
    const double begin = now_s();
    for (int i = 0; i < calls; ++i) {
      run();
    }
    least = std::min(least, (now_s() - begin) / calls);
  }
  return least;
}

// One message to the other rank and one back.
void ping_pong(ProcessGroup& group, const Tensor& buffer, int64_t bytes) {
  const int peer = 1 - group.rank();
  for (const bool forth : {true, false}) {
    if ((group.rank() == 0) == forth) {
      group.send({.buffer = buffer.ptr(), .bytes = bytes, .peer = peer});
    } else {
      group.recv({.buffer = buffer.ptr(), .bytes = bytes, .peer = peer});
    }
  }
}

}  // namespace

Link measure_link(Device& device, ProcessGroup& group, const MeasureBudget& budget) {
  const double g = group.size();
  Tensor input(device, {budget.message / kF32Bytes}, DType::kF32, MemoryCategory::kWorkspace);
  Tensor output(device, {budget.message / kF32Bytes}, DType::kF32, MemoryCategory::kWorkspace);
  device.stream().zero(input.ptr(), input.bytes());
  device.stream().zero(output.ptr(), output.bytes());
  // plan/comm_model.cc: seconds = steps * latency + (volume + half_bytes) / (bandwidth *
  // efficiency), volume and steps as of a ring.
  std::vector<FitPoint> points;
  double best_bandwidth = 0;
  const auto add_point = [&](double steps, double volume, double seconds) {
    points.push_back({{steps, volume, 1}, seconds});
    best_bandwidth = std::max(best_bandwidth, volume / seconds);
  };
  for (int64_t bytes = 4096; bytes <= budget.message; bytes *= 4) {
    const int64_t count = bytes / kF32Bytes;
    const auto whole = static_cast<double>(bytes);
    const double part = (g - 1) / g * whole;
    const auto per_rank = count / group.size();
    const double s = budget.seconds;
    add_point(2 * (g - 1), 2 * part, together_seconds(group, s, bytes, [&] {
                group.all_reduce({.buffer = input.ptr(), .count = count});
              }));
    add_point(g - 1, part, together_seconds(group, s, bytes, [&] {
                group.all_gather({.input = input.ptr(), .output = output.ptr(), .count = per_rank});
              }));
    add_point(
        g - 1, part, together_seconds(group, s, bytes, [&] {
          group.reduce_scatter({.input = input.ptr(), .output = output.ptr(), .count = per_rank});
        }));
    if (group.size() == 2) {
      add_point(1, whole,
                together_seconds(group, s, bytes, [&] { ping_pong(group, input, bytes); }) / 2);
    }
  }
  const std::vector<double> fit = fit_nonnegative(points);
  Link link;
  link.latency_s.value = fit[0];
  const double bandwidth = fit[1] > 0 ? 1 / fit[1] : best_bandwidth;
  link.bandwidth.value = std::max(bandwidth, best_bandwidth);
  link.efficiency.value = bandwidth / link.bandwidth.value;
  link.half_bytes.value = fit[2] * bandwidth;
  return link;
}

}  // namespace plait
