// Matrix products on the CPU. One entry point; the implementation is chosen by shape, element type
// and what this CPU can do (gemm_dispatch.cc).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "base/thread_pool.h"

namespace plait::cpu {

// As MatmulArgs, with host addresses.
struct GemmArgs {
  const void* a = nullptr;
  const void* b = nullptr;
  void* c = nullptr;
  const void* bias = nullptr;
  int64_t m = 0, n = 0, k = 0;
  int64_t a_stride = 0, b_stride = 0, c_stride = 0;
  bool transpose_a = false, transpose_b = false;
  bool accumulate = false;
  DType input_dtype = DType::kF32;
  DType output_dtype = DType::kF32;
};

// Runs the fastest implementation that supports the arguments. Not reentrant for one pool.
void gemm(const GemmArgs& args, ThreadPool& pool);

// Every implementation this CPU can run, by name ("plain", "avx2", "avx512", "avx512_bf16",
// "onednn"), for tests and benchmarks. gemm_with returns false if it does not support the
// arguments.
std::vector<std::string> gemm_implementations();
bool gemm_with(const std::string& name, const GemmArgs& args, ThreadPool& pool);

// The implementation gemm() would choose.
std::string gemm_choice(const GemmArgs& args);

// Measured f32 (or bf16) GEMM peak of `pool` in FLOP/s: the best of several large square products.
// Takes about 0.3 s. Provenance: measured.
double measure_gemm_peak(DType dtype, ThreadPool& pool);

}  // namespace plait::cpu
