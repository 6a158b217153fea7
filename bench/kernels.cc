// Times every CPU kernel but the matrix product at the shapes of a 124M-parameter Llama (hidden
// 768, 12 heads of 64, ffn 2048, vocabulary 50304), beside the bound: bytes moved at the measured
// copy bandwidth, or flops at the speed of a large f32 product. Usage: bench_kernels [threads]
// [filter]
#include <ctime>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/thread_pool.h"
#include "device/device.h"
#include "tensor/tensor.h"

namespace plait {
namespace {

constexpr int64_t kHidden = 768;
constexpr int64_t kHeads = 12;
constexpr int64_t kHeadDim = 64;
constexpr int64_t kFfn = 2048;
constexpr int64_t kVocab = 50304;
constexpr int64_t kParams = 124'000'000;
constexpr int64_t kSquare = 768;

class Bench {
 public:
  Bench(int num_threads, std::string filter)
      : filter_(std::move(filter)),
        device_(make_device("cpu", {.num_threads = num_threads})),
        pool_({.num_threads = num_threads, .spin_us = 50}) {}

  Tensor tensor(std::vector<int64_t> shape, DType dtype = DType::kF32) {
    Tensor result(*device_, std::move(shape), dtype, MemoryCategory::kWorkspace);
    device_->stream().zero(result.ptr(), result.bytes());
    return result;
  }

  void measure_bounds() {
    const Tensor a = tensor({64 << 20});
    const Tensor b = tensor({64 << 20});
    const double seconds = best([&] { device_->stream().copy(a.ptr(), b.ptr(), a.bytes()); });
    // Large copies write past the cache, so the destination is not read.
    bytes_per_s_ = 2 * static_cast<double>(a.bytes()) / seconds;
    const Tensor square = tensor({3, kSquare, kSquare});
    MatmulArgs matmul{};
    matmul.a = square.ptr();
    matmul.b = square.ptr() + kSquare * kSquare * 4;
    matmul.c = square.ptr() + 2 * kSquare * kSquare * 4;
    matmul.m = matmul.n = matmul.k = kSquare;
    matmul.a_stride = matmul.b_stride = matmul.c_stride = kSquare;
    const double product_s = best([&] { device_->kernels().matmul(device_->stream(), matmul); });
    flops_per_s_ = 2.0 * kSquare * kSquare * kSquare / product_s;
    std::printf("copy bandwidth %.1f GB/s, f32 product %.0f GFLOP/s\n", bytes_per_s_ / 1e9,
                flops_per_s_ / 1e9);
    std::printf("%-34s %10s %10s %7s\n", "kernel", "time us", "bound us", "bound/t");
  }

  // `bytes` and `flops` that the call cannot avoid.
  void time(const std::string& name, double bytes, double flops,
            const std::function<void(Kernels&, Stream&)>& call) {
    if (name.find(filter_) == std::string::npos) {
      return;
    }
    const double seconds = best([&] { call(device_->kernels(), device_->stream()); });
    const double bound = std::max(bytes / bytes_per_s_, flops / flops_per_s_);
    std::printf("%-34s %10.1f %10.1f %7.2f\n", name.c_str(), seconds * 1e6, bound * 1e6,
                bound / seconds);
  }

  Device& device() { return *device_; }

 private:
  // Processor time of this process, all threads.
  static double cpu_s() {
    timespec time{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
  }

  // Best of at least 5 runs and 0.2 s. Processor time over threads is the smaller one where other
  // processes share the cores.
  double best(const std::function<void()>& body) {
    body();
    double result = 1e30;
    const double end = now_s() + 0.2;
    for (int i = 0; i < 5 || (now_s() < end && i < 2000); ++i) {
      const double begin = now_s();
      const double cpu_begin = cpu_s();
      body();
      result = std::min({result, now_s() - begin, (cpu_s() - cpu_begin) / pool_.num_threads()});
    }
    return result;
  }

  std::string filter_;
  std::unique_ptr<Device> device_;
  ThreadPool pool_;
  double bytes_per_s_ = 1;
  double flops_per_s_ = 1;
};

void bench_attention(Bench& bench, int64_t batch, int64_t seq_len) {
  const int64_t rows = batch * seq_len;
  const int64_t width = kHeads * kHeadDim;
  const Tensor qkv = bench.tensor({rows, 3 * width});
  const Tensor grad_qkv = bench.tensor({rows, 3 * width});
  const Tensor out = bench.tensor({rows, width});
  const Tensor lse = bench.tensor({kHeads, rows});
  const int64_t step = width * 4;
  AttentionForwardArgs forward{};
  forward.q = qkv.ptr();
  forward.k = qkv.ptr() + step;
  forward.v = qkv.ptr() + 2 * step;
  forward.out = out.ptr();
  forward.lse = lse.ptr();
  forward.batch = batch;
  forward.seq_len = seq_len;
  forward.heads = forward.kv_heads = kHeads;
  forward.head_dim = kHeadDim;
  forward.q_stride = forward.k_stride = forward.v_stride = 3 * width;
  forward.out_stride = width;
  forward.scale = 0.125F;
  AttentionBackwardArgs backward{};
  backward.q = forward.q;
  backward.k = forward.k;
  backward.v = forward.v;
  backward.out = backward.grad_out = out.ptr();
  backward.lse = backward.scratch = lse.ptr();
  backward.grad_q = grad_qkv.ptr();
  backward.grad_k = grad_qkv.ptr() + step;
  backward.grad_v = grad_qkv.ptr() + 2 * step;
  backward.batch = batch;
  backward.seq_len = seq_len;
  backward.heads = backward.kv_heads = kHeads;
  backward.head_dim = kHeadDim;
  backward.q_stride = backward.k_stride = backward.v_stride = 3 * width;
  backward.grad_q_stride = backward.grad_k_stride = backward.grad_v_stride = 3 * width;
  backward.out_stride = backward.grad_out_stride = width;
  backward.scale = 0.125F;
  const double pairs = static_cast<double>(batch * kHeads * seq_len * (seq_len + 1)) / 2;
  const double flops = pairs * 2 * kHeadDim * 2;
  const std::string shape = " " + std::to_string(batch) + " x " + std::to_string(seq_len);
  bench.time("attention_forward" + shape, 0, flops,
             [&](Kernels& k, Stream& s) { k.attention_forward(s, forward); });
  bench.time("attention_backward" + shape, 0, flops * 2.5,
             [&](Kernels& k, Stream& s) { k.attention_backward(s, backward); });
}

// The row-wise operators of one layer at `rows` tokens.
void bench_layer(Bench& bench, int64_t rows) {
  const Tensor x = bench.tensor({rows, kHidden});
  const Tensor y = bench.tensor({rows, kHidden});
  const Tensor weight = bench.tensor({kHidden});
  const Tensor rstd = bench.tensor({rows});
  const Tensor gate_up = bench.tensor({rows, 2 * kFfn});
  const Tensor ffn = bench.tensor({rows, kFfn});
  const double row = static_cast<double>(rows * kHidden * 4);
  const double ffn_row = static_cast<double>(rows * kFfn * 4);
  const std::string shape = " " + std::to_string(rows);
  bench.time("rms_norm_forward" + shape, 2 * row, 0, [&](Kernels& k, Stream& s) {
    k.rms_norm_forward(s, {.x = x.ptr(),
                           .weight = weight.ptr(),
                           .y = y.ptr(),
                           .rstd = rstd.ptr(),
                           .rows = rows,
                           .cols = kHidden,
                           .x_stride = kHidden,
                           .y_stride = kHidden,
                           .eps = 1e-5F});
  });
  bench.time("rms_norm_backward" + shape, 3 * row, 0, [&](Kernels& k, Stream& s) {
    k.rms_norm_backward(s, {.x = x.ptr(),
                            .weight = weight.ptr(),
                            .rstd = rstd.ptr(),
                            .grad_y = y.ptr(),
                            .grad_x = y.ptr(),
                            .grad_weight = weight.ptr(),
                            .rows = rows,
                            .cols = kHidden,
                            .x_stride = kHidden,
                            .grad_y_stride = kHidden,
                            .grad_x_stride = kHidden});
  });
  bench.time("swiglu_forward" + shape, 3 * ffn_row, 0, [&](Kernels& k, Stream& s) {
    k.swiglu_forward(s, {.gate_up = gate_up.ptr(), .out = ffn.ptr(), .rows = rows, .cols = kFfn});
  });
  bench.time("swiglu_backward" + shape, 5 * ffn_row, 0, [&](Kernels& k, Stream& s) {
    k.swiglu_backward(s, {.gate_up = gate_up.ptr(),
                          .grad_out = ffn.ptr(),
                          .grad_gate_up = gate_up.ptr(),
                          .rows = rows,
                          .cols = kFfn});
  });
  bench.time("rope" + shape, 2 * row, 0, [&](Kernels& k, Stream& s) {
    k.rope(s, {.x = x.ptr(),
               .cos = gate_up.ptr(),
               .sin = gate_up.ptr(),
               .rows = rows,
               .seq_len = rows,
               .heads = kHeads,
               .head_dim = kHeadDim,
               .x_stride = kHidden});
  });
  bench.time("add" + shape, 3 * row, 0, [&](Kernels& k, Stream& s) {
    k.add(s, {.x = x.ptr(), .other = y.ptr(), .y = x.ptr(), .count = rows * kHidden});
  });
  bench.time("column_sum" + shape, row, 0, [&](Kernels& k, Stream& s) {
    k.column_sum(
        s, {.x = x.ptr(), .out = weight.ptr(), .rows = rows, .cols = kHidden, .stride = kHidden});
  });
}

void bench_head(Bench& bench, int64_t rows) {
  const Tensor logits = bench.tensor({rows, kVocab});
  const Tensor max = bench.tensor({rows});
  const Tensor stats = bench.tensor({2, rows});
  const Tensor targets = bench.tensor({rows}, DType::kI32);
  const Tensor x = bench.tensor({rows, kHidden});
  const Tensor table = bench.tensor({kVocab, kHidden});
  const double bytes = static_cast<double>(logits.bytes());
  const std::string shape = " " + std::to_string(rows);
  bench.time("row_max" + shape, bytes, 0, [&](Kernels& k, Stream& s) {
    k.row_max(
        s,
        {.logits = logits.ptr(), .max = max.ptr(), .rows = rows, .cols = kVocab, .stride = kVocab});
  });
  bench.time("sum_exp" + shape, bytes, 0, [&](Kernels& k, Stream& s) {
    k.sum_exp(s, {.logits = logits.ptr(),
                  .max = max.ptr(),
                  .stats = stats.ptr(),
                  .targets = targets.ptr(),
                  .rows = rows,
                  .cols = kVocab,
                  .stride = kVocab});
  });
  bench.time("cross_entropy_backward" + shape, 2 * bytes, 0, [&](Kernels& k, Stream& s) {
    k.cross_entropy_backward(s, {.logits = logits.ptr(),
                                 .max = max.ptr(),
                                 .stats = stats.ptr(),
                                 .targets = targets.ptr(),
                                 .rows = rows,
                                 .cols = kVocab,
                                 .padded_cols = kVocab,
                                 .stride = kVocab,
                                 .scale = 1e-3F});
  });
  bench.time("embedding_forward" + shape, 2 * static_cast<double>(x.bytes()), 0,
             [&](Kernels& k, Stream& s) {
               k.embedding_forward(s, {.ids = targets.ptr(),
                                       .table = table.ptr(),
                                       .out = x.ptr(),
                                       .rows = rows,
                                       .cols = kHidden,
                                       .vocab_count = kVocab});
             });
  bench.time("embedding_backward" + shape, 3 * static_cast<double>(x.bytes()), 0,
             [&](Kernels& k, Stream& s) {
               k.embedding_backward(s, {.ids = targets.ptr(),
                                        .grad_out = x.ptr(),
                                        .grad_table = table.ptr(),
                                        .rows = rows,
                                        .cols = kHidden,
                                        .vocab_count = kVocab});
             });
}

void bench_optimizer(Bench& bench) {
  const Tensor param = bench.tensor({kParams});
  const Tensor grad = bench.tensor({kParams});
  const Tensor exp_avg = bench.tensor({kParams});
  const Tensor exp_avg_sq = bench.tensor({kParams});
  const Tensor low = bench.tensor({kParams}, DType::kBF16);
  const Tensor sum = bench.tensor({1});
  const auto count = static_cast<double>(kParams);
  for (const bool copy : {false, true}) {
    bench.time(copy ? "adamw with bf16 copy" : "adamw", count * (copy ? 32 : 28), 0,
               [&](Kernels& k, Stream& s) {
                 k.adamw(s, {.param = param.ptr(),
                             .grad = grad.ptr(),
                             .exp_avg = exp_avg.ptr(),
                             .exp_avg_sq = exp_avg_sq.ptr(),
                             .low_precision = copy ? low.ptr() : DevicePtr(),
                             .count = kParams,
                             .lr = 1e-3,
                             .beta1 = 0.9,
                             .beta2 = 0.95,
                             .eps = 1e-8,
                             .weight_decay = 0.1});
               });
  }
  bench.time("sum_squares", count * 4, 0, [&](Kernels& k, Stream& s) {
    k.sum_squares(s, {.x = grad.ptr(), .out = sum.ptr(), .count = kParams});
  });
  bench.time("scale", count * 8, 0, [&](Kernels& k, Stream& s) {
    k.scale(s, {.x = grad.ptr(), .count = kParams, .factor = 0.5F});
  });
  bench.time("cast to bf16", count * 8, 0, [&](Kernels& k, Stream& s) {
    k.cast(s, {.source = grad.ptr(),
               .destination = low.ptr(),
               .count = kParams,
               .destination_dtype = DType::kBF16});
  });
  bench.time("zero", count * 8, 0,
             [&](Kernels& /*k*/, Stream& s) { s.zero(grad.ptr(), grad.bytes()); });
}

}  // namespace
}  // namespace plait

int main(int argc, char** argv) {
  plait::Bench bench(argc > 1 ? std::atoi(argv[1]) : 2, argc > 2 ? argv[2] : "");
  bench.measure_bounds();
  for (const auto& [batch, seq_len] : {std::pair<int64_t, int64_t>{4, 64}, {4, 256}, {1, 1024}}) {
    plait::bench_attention(bench, batch, seq_len);
  }
  for (const int64_t rows : {256, 1024}) {
    plait::bench_layer(bench, rows);
    plait::bench_head(bench, rows);
  }
  plait::bench_optimizer(bench);
}
