// Times the serving operators at the shapes of Qwen3-0.6B (hidden 1024, ffn 3072, 16 heads, 8 kv
// heads of 128, vocabulary 151936, 28 layers), beside the bound measured in the same process: bytes
// at the speed of a plain read of memory, or flops at the speed of a large product, whichever
// takes longer. All layers have weights (and a cache) of their own, so they come from memory as in
// a real step.
//
//   bench_serve_kernels [threads] [filter] [isa]
//
// The filter is a part of the names of rows; isa is a set that this CPU has, such as avx2.
#include <ctime>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/cpu_info.h"
#include "base/rng.h"
#include "base/round_up.h"
#include "base/thread_pool.h"
#include "device/cpu/gemm.h"
#include "device/cpu/memory_peak.h"
#include "device/cpu/serve/isa.h"
#include "device/device.h"
#include "tensor/tensor.h"

namespace plait {
namespace {

constexpr int64_t kHidden = 1024;
constexpr int64_t kFfn = 3072;
constexpr int64_t kHeads = 16;
constexpr int64_t kKvHeads = 8;
constexpr int64_t kHeadDim = 128;
constexpr int64_t kVocab = 151936;
constexpr int64_t kLayers = 28;
constexpr double kMinSeconds = 1.0;

struct Bounds {
  double bytes_per_s = 0;
  double f32_flops_per_s = 0;
  double pair_flops_per_s = 0;  // bf16, where the CPU multiplies pairs of 16 bits faster
};

// Processor time of this process, all threads.
double cpu_s() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

struct Times {
  double wall_s = 1e30;
  double cpu_s = 1e30;  // of all threads
};

// Best times of `call`, run for at least twice and kMinSeconds.
Times best_times(const std::function<void()>& call) {
  Times best;
  const double end = now_s() + kMinSeconds;
  for (int i = 0; i < 2 || now_s() < end; ++i) {
    const double wall = now_s();
    const double cpu = cpu_s();
    call();
    best.wall_s = std::min(best.wall_s, now_s() - wall);
    best.cpu_s = std::min(best.cpu_s, cpu_s() - cpu);
  }
  return best;
}

double read_bandwidth(int num_threads) {
  ThreadPool pool({.num_threads = num_threads, .spin_us = 50});
  return cpu::measure_read_bandwidth(pool).best;
}

Bounds measure_bounds(int num_threads) {
  ThreadPool pool({.num_threads = num_threads, .spin_us = 50});
  const double f32 = cpu::measure_gemm_peak(DType::kF32, pool);
  return {read_bandwidth(num_threads), f32,
          cpu_info().avx512_bf16 ? cpu::measure_gemm_peak(DType::kBF16, pool) : f32};
}

Tensor random_tensor(Device& device, std::vector<int64_t> shape, DType dtype, float scale) {
  Tensor result(device, std::move(shape), dtype, MemoryCategory::kWorkspace);
  Tensor f32(device, result.shape(), DType::kF32, MemoryCategory::kWorkspace);
  std::vector<float> values(static_cast<size_t>(result.count()));
  uint32_t state = 1;
  for (float& x : values) {
    state = state * 1664525U + 1013904223U;
    x = (static_cast<float>(state >> 8) / 8388608.0F - 1) * scale;
  }
  device.stream().copy_to_device(f32.ptr(), values.data(), f32.bytes());
  device.kernels().cast(device.stream(), {.source = f32.ptr(),
                                          .destination = result.ptr(),
                                          .count = result.count(),
                                          .source_dtype = DType::kF32,
                                          .destination_dtype = dtype});
  return result;
}

class Bench {
 public:
  Bench(int num_threads, std::string filter)
      : filter_(std::move(filter)),
        device_(make_device("cpu", {.num_threads = num_threads})),
        num_threads_(num_threads),
        bounds_(measure_bounds(num_threads)) {
    std::printf("read %.1f GB/s, large product %.0f GFLOP/s in f32, %.0f in 16 bits\n",
                bounds_.bytes_per_s / 1e9, bounds_.f32_flops_per_s / 1e9,
                bounds_.pair_flops_per_s / 1e9);
    std::printf("%-34s %9s %9s %9s %9s %9s\n", "", "ms", "cpu ms", "GB/s", "GFLOP/s", "of bound");
  }

  // Attention of one step, all layers: `streams` sequences with `rows` new tokens each, the last of
  // them at position depth - 1.
  void attention(DType kv_dtype, int64_t streams, int64_t rows, int64_t depth) {
    const std::string name = std::string("attention ") + dtype_name(kv_dtype) + ", " +
                             std::to_string(streams) + " x " + std::to_string(rows) + ", depth " +
                             std::to_string(depth);
    if (name.find(filter_) == std::string::npos) {
      return;
    }
    const KvLayout kv{kKvHeads, kHeadDim, kv_dtype};
    const int64_t blocks = divide_up(depth, kKvBlockTokens);
    const int64_t layer_bytes = device_->kernels().kv_block_bytes(kv) * blocks * streams;
    const Buffer cache(*device_, layer_bytes * kLayers, MemoryCategory::kKvCache);
    device_->stream().zero(cache.ptr(), cache.bytes());
    const Tensor q = random_tensor(*device_, {streams * rows, kHeads * kHeadDim}, kv_dtype, 1);
    const Tensor out(*device_, q.shape(), kv_dtype, MemoryCategory::kWorkspace);
    std::vector<AttentionRun> runs;
    std::vector<int32_t> table;
    for (int64_t s = 0; s < streams; ++s) {
      runs.push_back({static_cast<int32_t>(s * rows), static_cast<int32_t>(rows),
                      static_cast<int32_t>(depth - rows), static_cast<int32_t>(s)});
      for (int64_t b = 0; b < blocks; ++b) {
        table.push_back(static_cast<int32_t>(s * blocks + b));
      }
    }
    const Tensor run_tensor(*device_, {streams, 4}, DType::kI32, MemoryCategory::kWorkspace);
    const Tensor table_tensor(*device_, {streams, blocks}, DType::kI32, MemoryCategory::kWorkspace);
    device_->stream().copy_to_device(run_tensor.ptr(), runs.data(), run_tensor.bytes());
    device_->stream().copy_to_device(table_tensor.ptr(), table.data(), table_tensor.bytes());
    // Memory's speed drifts; it bounds most of these rows.
    bounds_.bytes_per_s = read_bandwidth(num_threads_);
    const Times times = best_times([&] {
      for (int64_t layer = 0; layer < kLayers; ++layer) {
        device_->kernels().paged_attention(device_->stream(),
                                           {.q = q.ptr(),
                                            .out = out.ptr(),
                                            .kv_cache = cache.ptr() + layer * layer_bytes,
                                            .runs = run_tensor.ptr(),
                                            .block_tables = table_tensor.ptr(),
                                            .kv = kv,
                                            .run_count = streams,
                                            .table_stride = blocks,
                                            .heads = kHeads,
                                            .q_stride = kHeads * kHeadDim,
                                            .out_stride = kHeads * kHeadDim,
                                            .scale = 0.088F,
                                            .dtype = kv_dtype});
      }
    });
    const double scores = static_cast<double>(streams * rows) *
                          (static_cast<double>(depth) - static_cast<double>(rows - 1) / 2);
    report(name, times, static_cast<double>(cache.bytes()),
           scores * kHeads * kHeadDim * 4 * kLayers, bounds_.f32_flops_per_s);
  }

  // The products of one step, all layers; the last (vocabulary) for `head_rows` rows.
  void products(WeightFormat format, const char* format_name) {
    std::vector<int64_t> row_counts;
    for (const int64_t m : {1, 2, 4, 8, 16, 512}) {
      if (products_name(format_name, m).find(filter_) != std::string::npos) {
        row_counts.push_back(m);
      }
    }
    if (row_counts.empty()) {
      return;
    }
    std::vector<PackedWeight> shapes;
    for (int64_t layer = 0; layer < kLayers; ++layer) {
      shapes.push_back({(kHeads + 2 * kKvHeads) * kHeadDim, kHidden, format});
      shapes.push_back({kHidden, kHeads * kHeadDim, format});
      shapes.push_back({2 * kFfn, kHidden, format});
      shapes.push_back({kHidden, kFfn, format});
    }
    shapes.push_back({kVocab, kHidden, format});
    std::vector<std::unique_ptr<Buffer>> weights;
    for (const PackedWeight& shape : shapes) {
      weights.push_back(pack(shape));
    }
    for (const int64_t m : row_counts) {
      time_products(shapes, weights, m, format_name);
    }
  }

 private:
  static std::string products_name(const char* format_name, int64_t m) {
    return "products " + std::string(format_name) + ", " + std::to_string(m) + " rows";
  }

  std::unique_ptr<Buffer> pack(const PackedWeight& weight) {
    auto packed = std::make_unique<Buffer>(*device_, device_->kernels().packed_weight_bytes(weight),
                                           MemoryCategory::kWeights);
    const int64_t piece = std::min<int64_t>(weight.n, 4096);
    const Tensor source = random_tensor(*device_, {piece, weight.k}, DType::kBF16, 0.05F);
    for (int64_t row = 0; row < weight.n; row += piece) {
      device_->kernels().pack_weight(device_->stream(), {.source = source.ptr(),
                                                         .packed = packed->ptr(),
                                                         .weight = weight,
                                                         .row_begin = row,
                                                         .rows = std::min(piece, weight.n - row),
                                                         .source_stride = weight.k,
                                                         .source_dtype = DType::kBF16});
    }
    return packed;
  }

  void time_products(const std::vector<PackedWeight>& shapes,
                     const std::vector<std::unique_ptr<Buffer>>& weights, int64_t m,
                     const char* format_name) {
    // A prompt needs the logits of its last row only.
    const int64_t head_rows = m > 64 ? 1 : m;
    const DType dtype = shapes[0].format == WeightFormat::kF32 ? DType::kF32 : DType::kBF16;
    const Tensor a = random_tensor(*device_, {m, kFfn}, dtype, 1);
    const Tensor c(*device_, {m, 2 * kFfn}, dtype, MemoryCategory::kWorkspace);
    const Tensor logits(*device_, {head_rows, kVocab}, DType::kF32, MemoryCategory::kWorkspace);
    double bytes = 0;
    double flops = 0;
    for (size_t i = 0; i < shapes.size(); ++i) {
      const int64_t rows = shapes[i].n == kVocab ? head_rows : m;
      bytes += static_cast<double>(weights[i]->bytes());
      flops += 2.0 * static_cast<double>(rows * shapes[i].n * shapes[i].k);
    }
    const Times times = best_times([&] {
      for (size_t i = 0; i < shapes.size(); ++i) {
        const bool is_head = shapes[i].n == kVocab;
        device_->kernels().matmul_packed(device_->stream(),
                                         {.a = a.ptr(),
                                          .packed = weights[i]->ptr(),
                                          .c = is_head ? logits.ptr() : c.ptr(),
                                          .bias = {},
                                          .weight = shapes[i],
                                          .m = is_head ? head_rows : m,
                                          .a_stride = kFfn,
                                          .c_stride = is_head ? kVocab : 2 * kFfn,
                                          .a_dtype = dtype,
                                          .c_dtype = is_head ? DType::kF32 : dtype});
      }
    });
    report(products_name(format_name, m), times, bytes, flops,
           dtype == DType::kF32 ? bounds_.f32_flops_per_s : bounds_.pair_flops_per_s);
  }

  void report(const std::string& name, Times times, double bytes, double flops,
              double flops_per_s) const {
    const double seconds = times.wall_s;
    const double bound = std::max(bytes / bounds_.bytes_per_s, flops / flops_per_s);
    std::printf("%-34s %9.2f %9.2f %9.1f %9.1f %8.0f%%\n", name.c_str(), seconds * 1e3,
                times.cpu_s * 1e3, bytes / seconds / 1e9, flops / seconds / 1e9,
                bound / seconds * 100);
    std::fflush(stdout);
  }

  std::string filter_;
  std::unique_ptr<Device> device_;
  int num_threads_;
  Bounds bounds_;
};

int run(int argc, char** argv) {
  const int num_threads = argc > 1 ? std::atoi(argv[1]) : 2;
  if (argc > 3) {
    cpu::serve::force_isa(argv[3]);
  }
  Bench bench(num_threads, argc > 2 ? argv[2] : "");
  bench.products(WeightFormat::kBF16, "bf16");
  bench.products(WeightFormat::kInt8, "int8");
  bench.products(WeightFormat::kF32, "f32");
  for (const DType dtype : {DType::kBF16, DType::kF32}) {
    for (const int64_t depth : {128, 2048, 8192}) {
      bench.attention(dtype, 1, 1, depth);
    }
    bench.attention(dtype, 16, 1, 128);
    bench.attention(dtype, 1, 512, 512);
    bench.attention(dtype, 1, 512, 8192);
  }
  return 0;
}

}  // namespace
}  // namespace plait

int main(int argc, char** argv) {
  return plait::run(argc, argv);
}
