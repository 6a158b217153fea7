// Matrix products at the shapes of a 124M-parameter Llama (hidden 768, ffn 2048, vocab 50304) in
// training, and at small ones: GFLOP/s of every implementation, the one gemm() chooses, its share
// of the measured peak and its ratio to oneDNN in the same run. The bound is the peak.
//   gemm_bench [--threads N] [--quick] [--dtype f32|bf16|f16] [--filter TEXT] [--cpu-time]
// --cpu-time: by CPU time, for a machine that others use.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <map>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/cpu_info.h"
#include "device/cpu/gemm.h"

namespace plait::cpu {
namespace {

struct Shape {
  std::string name;
  int64_t m, n, k;
  bool transpose_a, transpose_b, accumulate;
};

struct Options {
  int threads = available_cores();
  double seconds = 0.4;  // for each implementation and shape
  DType dtype = DType::kF32;
  std::string filter;
  bool cpu_time = false;
};

// Seconds now: wall time, or the mean CPU time of the threads, which stays steady on a machine
// shared with others (but does not see threads that wait for each other).
double clock_s(const Options& options) {
  if (!options.cpu_time) {
    return now_s();
  }
  timespec t{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return (static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec)) / options.threads;
}

// y = x w^T, grad_x = grad_y w, grad_w += grad_y^T x for x [tokens, in] and w [out, in].
void add_linear(std::vector<Shape>& shapes, const std::string& name, int64_t tokens, int64_t out,
                int64_t in) {
  const std::string suffix = name + " M=" + std::to_string(tokens);
  shapes.push_back({"forward " + suffix, tokens, out, in, false, true, false});
  shapes.push_back({"grad_x  " + suffix, tokens, in, out, false, false, false});
  shapes.push_back({"grad_w  " + suffix, out, in, tokens, true, false, true});
}

std::vector<Shape> make_shapes() {
  std::vector<Shape> shapes;
  for (const int64_t tokens : {256, 1024}) {
    add_linear(shapes, "qkv", tokens, 2304, 768);
    add_linear(shapes, "out", tokens, 768, 768);
    add_linear(shapes, "gate_up", tokens, 4096, 768);
    add_linear(shapes, "down", tokens, 768, 2048);
    add_linear(shapes, "head", tokens, 50304, 768);
  }
  for (const int64_t tokens : {1, 4, 8, 16, 32}) {
    add_linear(shapes, "few rows", tokens, 2304, 768);
  }
  for (const int64_t tokens : {16, 64}) {
    add_linear(shapes, "tiny", tokens, 192, 64);
  }
  return shapes;
}

// Seconds of one product: the best of several; 0 if `name` does not support it.
double time_product(const std::string& name, const GemmArgs& args, const Options& options,
                    ThreadPool& pool) {
  double best = 1e9;
  const double start = now_s();
  for (int i = 0; i < 3 || now_s() - start < options.seconds; ++i) {
    const double begin = clock_s(options);
    if (!gemm_with(name, args, pool)) {
      return 0;
    }
    best = std::min(best, clock_s(options) - begin);
  }
  return best;
}

// As measure_gemm_peak(), by CPU time.
double measure_cpu_time_peak(const Options& options, ThreadPool& pool) {
  constexpr int64_t kSize = 1024;
  const std::vector<char> a(static_cast<size_t>(kSize * kSize * dtype_size(options.dtype)));
  std::vector<float> c(static_cast<size_t>(kSize * kSize));
  GemmArgs args;
  args.a = args.b = a.data(), args.c = c.data();
  args.m = args.n = args.k = args.a_stride = args.b_stride = args.c_stride = kSize;
  args.input_dtype = options.dtype;
  double peak = 0;
  for (const std::string& name : gemm_implementations()) {
    const double seconds = name == "plain" ? 0 : time_product(name, args, options, pool);
    peak = seconds == 0 ? peak : std::max(peak, 2.0 * kSize * kSize * kSize / seconds);
  }
  return peak;
}

void run_shape(const Shape& shape, const Options& options, double peak, ThreadPool& pool) {
  GemmArgs args;
  args.m = shape.m, args.n = shape.n, args.k = shape.k;
  args.transpose_a = shape.transpose_a, args.transpose_b = shape.transpose_b;
  args.accumulate = shape.accumulate;
  args.input_dtype = options.dtype;
  args.output_dtype = shape.accumulate ? DType::kF32 : options.dtype;
  args.a_stride = shape.transpose_a ? shape.m : shape.k;
  args.b_stride = shape.transpose_b ? shape.k : shape.n;
  args.c_stride = shape.n;
  const int64_t size = dtype_size(options.dtype);
  std::vector<char> a(static_cast<size_t>(shape.m * shape.k * size), 0);
  std::vector<char> b(static_cast<size_t>(shape.k * shape.n * size), 0);
  std::vector<char> c(static_cast<size_t>(shape.m * shape.n * dtype_size(args.output_dtype)), 0);
  args.a = a.data(), args.b = b.data(), args.c = c.data();
  const double flops = 2.0 * static_cast<double>(shape.m * shape.n) * static_cast<double>(shape.k);
  std::map<std::string, double> speed;
  std::printf("%-24s %5ldx%5ldx%5ld", shape.name.c_str(), shape.m, shape.n, shape.k);
  for (const std::string& name : gemm_implementations()) {
    if (name == "plain") {
      continue;
    }
    const double seconds = time_product(name, args, options, pool);
    speed[name] = seconds == 0 ? 0 : flops / seconds;
    std::printf("  %s %6.1f", name.c_str(), speed[name] * 1e-9);
  }
  const std::string choice = gemm_choice(args);
  std::printf("  -> %-6s %3.0f%% of peak", choice.c_str(), 100 * speed[choice] / peak);
  if (speed["onednn"] > 0) {
    std::printf(", %.2fx oneDNN", speed[choice] / speed["onednn"]);
  }
  std::printf("\n");
  std::fflush(stdout);
}

double measure_peak(const Options& options, ThreadPool& pool) {
  return options.cpu_time ? measure_cpu_time_peak(options, pool)
                          : measure_gemm_peak(options.dtype, pool);
}

int run(const Options& options) {
  ThreadPool pool({.num_threads = options.threads, .spin_us = options.cpu_time ? 0.0 : 50.0});
  const double peak = measure_peak(options, pool);
  std::printf("%s, %d threads, peak %.1f GFLOP/s (measured)\n", dtype_name(options.dtype),
              options.threads, peak * 1e-9);
  for (const Shape& shape : make_shapes()) {
    if (shape.name.find(options.filter) != std::string::npos) {
      run_shape(shape, options, peak, pool);
    }
  }
  std::printf("peak again %.1f GFLOP/s\n", measure_peak(options, pool) * 1e-9);
  return 0;
}

}  // namespace
}  // namespace plait::cpu

int main(int argc, char** argv) {
  plait::cpu::Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string flag = argv[i];
    const char* value = i + 1 < argc ? argv[i + 1] : "";
    if (flag == "--quick") {
      options.seconds = 0.05;
    } else if (flag == "--cpu-time") {
      options.cpu_time = true;
    } else if (flag == "--threads") {
      options.threads = std::max(1, std::atoi(value)), ++i;
    } else if (flag == "--filter") {
      options.filter = value, ++i;
    } else if (flag == "--dtype") {
      options.dtype = std::strcmp(value, "bf16") == 0  ? plait::DType::kBF16
                      : std::strcmp(value, "f16") == 0 ? plait::DType::kF16
                                                       : plait::DType::kF32;
      ++i;
    } else {
      std::fprintf(
          stderr,
          "unknown flag %s; known: --threads N --quick --dtype D --filter TEXT --cpu-time\n",
          argv[i]);
      return 2;
    }
  }
  return plait::cpu::run(options);
}
