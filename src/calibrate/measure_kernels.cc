#include <array>
#include <vector>

#include "calibrate/measure.h"
#include "op/attention.h"
#include "op/elementwise.h"
#include "op/linear.h"
#include "op/norm.h"

namespace plait {
namespace {

Tensor make(Device& device, std::vector<int64_t> shape, DType dtype = DType::kF32) {
  Tensor tensor(device, std::move(shape), dtype, MemoryCategory::kWorkspace);
  device.stream().zero(tensor.ptr(), tensor.bytes());
  return tensor;
}

// Matrices that are taken in turn, so that each comes from memory as a model's weights do.
class Ring {
 public:
  Ring(Device& device, int64_t bytes, int64_t rows, int64_t cols)
      : rows_(rows),
        cols_(cols),
        size_(std::max<int64_t>(1, bytes / (rows * cols * kF32Bytes))),
        all_(make(device, {size_ * rows, cols})) {}
  Tensor next() {
    at_ = (at_ + 1) % size_;
    return all_.view(at_ * rows_ * cols_, {rows_, cols_});
  }

 private:
  int64_t rows_, cols_, size_;
  Tensor all_;
  int64_t at_ = 0;
};

struct Product {
  int64_t tokens, out, in;
  double flops() const {
    return 2.0 * static_cast<double>(tokens) * static_cast<double>(out) * static_cast<double>(in);
  }
  double weight_bytes() const { return static_cast<double>(out * in * kF32Bytes); }
};

// Mean seconds of the three products of a linear map.
double linear_seconds(Device& device, const Product& p, const MeasureBudget& budget) {
  Tensor x = make(device, {p.tokens, p.in});
  Tensor y = make(device, {p.tokens, p.out});
  Ring weights(device, budget.ring_bytes, p.out, p.in);
  const auto synchronized = [&](auto product) {
    return least_seconds(budget.seconds, [&] {
      product();
      device.stream().synchronize();
    });
  };
  const double forward = synchronized([&] { linear_forward(x, weights.next(), {}, y); });
  const double input = synchronized([&] { linear_backward_input(y, weights.next(), x); });
  const double weight = synchronized([&] {
    Tensor grad = weights.next();
    linear_backward_weight(y, x, grad, true);
  });
  return (forward + input + weight) / 3;
}

}  // namespace

double measure_peak(Device& device, DType dtype, const MeasureBudget& budget) {
  const int64_t n = budget.largest;
  const Tensor x = make(device, {n, n}, dtype);
  const Tensor w = make(device, {n, n}, dtype);
  Tensor y = make(device, {n, n}, dtype);
  const double seconds = least_seconds(budget.seconds, [&] {
    linear_forward(x, w, {}, y);
    device.stream().synchronize();
  });
  return Product{n, n, n}.flops() / seconds;
}

GemmFit measure_gemm(Device& device, const MeasureBudget& budget) {
  GemmFit fit;
  fit.peak = measure_peak(device, DType::kF32, budget);
  const int64_t tokens = budget.tokens;
  const int64_t n = budget.largest / 4;
  // seconds = (flops + half_flops) / (peak * efficiency) + weight bytes / weight bandwidth: linear
  // in flops and in weight bytes.
  std::vector<FitPoint> points;
  for (const int64_t rows : {tokens / 4, tokens / 2, tokens}) {
    for (const auto& [out, in] : {std::pair(n, n),
                                  {2 * n, n},
                                  {n, 2 * n},
                                  {2 * n, 2 * n},
                                  {4 * n, 2 * n},
                                  {2 * n, 4 * n}}) {
      const Product p{rows, out, in};
      points.push_back({{p.flops(), 1, p.weight_bytes()}, linear_seconds(device, p, budget)});
      fit.peak = std::max(fit.peak, p.flops() / points.back().seconds);
    }
  }
  const std::vector<double> coefficients = fit_nonnegative(points);
  fit.peak = std::max(fit.peak, 1 / coefficients[0]);
  fit.efficiency = 1 / coefficients[0] / fit.peak;
  fit.half_flops = coefficients[1] / coefficients[0];
  fit.weight_bandwidth = coefficients[2] > 0 ? 1 / coefficients[2] : 0;
  return fit;
}

double measure_attention(Device& device, const MeasureBudget& budget) {
  constexpr int64_t kDim = 64;
  const int64_t heads = budget.largest / 4 / kDim;
  const int64_t tokens = budget.tokens;
  double flops = 0;
  double seconds = 0;
  for (const int64_t seq : {tokens / 4, tokens / 2, tokens}) {
    Tensor qkv = make(device, {tokens, 3 * heads * kDim});
    Tensor grad = make(device, {tokens, 3 * heads * kDim});
    Tensor out = make(device, {tokens, heads * kDim});
    Tensor lse = make(device, {heads, tokens});
    Tensor scratch = make(device, {heads, tokens});
    const auto parts = [&](const Tensor& x) {
      return QkvColumns{columns(x, 0, heads * kDim), columns(x, heads * kDim, heads * kDim),
                        columns(x, 2 * heads * kDim, heads * kDim)};
    };
    const AttentionShape shape{.seq_len = seq, .head_dim = kDim};
    seconds += least_seconds(budget.seconds, [&] {
      attention_forward(parts(qkv), shape, out, lse);
      attention_backward({parts(qkv), out, lse}, shape, out, parts(grad), scratch);
      device.stream().synchronize();
    });
    // plan/layer_work.cc: causal scores and context forward, 2.5 times that backward.
    flops += 3.5 * static_cast<double>(tokens * seq * heads * 2 * kDim);
  }
  return flops / seconds;
}

ElementwiseFit measure_elementwise(Device& device, const MeasureBudget& budget) {
  const int64_t rows = budget.tokens;
  const int64_t hidden = budget.largest / 2;
  constexpr int64_t kDim = 64;
  Tensor x = make(device, {rows, hidden});
  Tensor y = make(device, {rows, hidden});
  Tensor weight = make(device, {hidden});
  Tensor grad_weight = make(device, {hidden});
  Tensor rstd = make(device, {rows});
  Tensor gate_up = make(device, {rows, 4 * hidden});
  Tensor swiglu = make(device, {rows, 2 * hidden});
  const RopeTable table{make(device, {rows, kDim / 2}), make(device, {rows, kDim / 2})};
  ElementwiseFit fit;
  double bytes = 0;
  double seconds = 0;
  // `traffic`: matrices of [rows, hidden] that the planner counts; `times`: in a layer.
  const auto part = [&](double traffic, double times, auto kernel) {
    const double took = least_seconds(budget.seconds, [&] {
      kernel();
      device.stream().synchronize();
    });
    const double moved = traffic * static_cast<double>(x.bytes());
    fit.fastest = std::max(fit.fastest, moved / took);
    bytes += times * moved;
    seconds += times * took;
  };
  part(2, 2, [&] { rms_norm_forward(columns(x), weight, 1e-6F, rstd, columns(y)); });
  part(3, 2, [&] {
    rms_norm_backward(
        {.x = columns(x), .grad_y = columns(y), .grad_x = columns(y), .accumulate = true}, weight,
        rstd, grad_weight);
  });
  const RopeOptions options{.seq_len = rows, .head_dim = kDim};
  part(2, 5, [&] { rope(columns(x), table, options); });
  part(6, 1, [&] { swiglu_forward(gate_up, swiglu); });
  part(9, 1, [&] { swiglu_backward(gate_up, swiglu, gate_up); });
  part(3, 2, [&] { add(x, y, y); });
  fit.layer = bytes / seconds;
  return fit;
}

double measure_launch(Device& device, const MeasureBudget& budget) {
  const Tensor x = make(device, {16});
  Tensor y = make(device, {16});
  return least_seconds(budget.seconds, [&] {
    add(x, y, y);
    device.stream().synchronize();
  });
}

double measure_layer(Device& device, ProcessGroup& group, const MeasureBudget& budget) {
  // Every rank makes the same number of runs: the time is guessed.
  constexpr double kGuessS = 2e-3;
  const int runs = static_cast<int>(std::clamp(10 * budget.seconds / kGuessS, 10.0, 300.0));
  const int64_t rows = budget.tokens / 2;
  const int64_t cols = budget.largest / 2;
  Tensor x = make(device, {rows, cols});
  Tensor y = make(device, {rows, cols});
  Tensor out = make(device, {rows, cols / 2});
  Tensor norm = make(device, {cols});
  Tensor rstd = make(device, {rows});
  Ring weights(device, budget.ring_bytes, cols, cols);
  double least = 1e30;
  for (int i = 0; i < runs; ++i) {
    group.barrier();
    const double begin = now_s();
    rms_norm_forward(columns(x), norm, 1e-6F, rstd, columns(y));
    linear_forward(y, weights.next(), {}, x);
    swiglu_forward(x, out);
    Tensor grad = weights.next();
    linear_backward_weight(x, y, grad, true);
    device.stream().synchronize();
    group.barrier();
    least = std::min(least, now_s() - begin);
  }
  return least;
}

double measure_stream(Device& device, ProcessGroup& group, const MeasureBudget& budget) {
  // AdamW reads parameter, gradient and two moments, and writes all but the gradient.
  constexpr double kStreams = 7;
  constexpr int kRuns = 8;
  std::array<Tensor, 4> arrays;
  for (Tensor& array : arrays) {
    array = make(device, {budget.stream_count});
  }
  double least = 1e30;
  for (int i = 0; i < kRuns; ++i) {
    group.barrier();
    const double begin = now_s();
    device.kernels().adamw(device.stream(), {.param = arrays[0].ptr(),
                                             .grad = arrays[1].ptr(),
                                             .exp_avg = arrays[2].ptr(),
                                             .exp_avg_sq = arrays[3].ptr(),
                                             .low_precision = {},
                                             .count = budget.stream_count,
                                             .lr = 1e-3,
                                             .beta1 = 0.9,
                                             .beta2 = 0.95,
                                             .eps = 1e-8,
                                             .weight_decay = 0.1});
    device.stream().synchronize();
    // The slowest of the ranks, as all of them ran.
    group.barrier();
    least = std::min(least, now_s() - begin);
  }
  return kStreams * kF32Bytes * static_cast<double>(budget.stream_count) / least;
}

}  // namespace plait
