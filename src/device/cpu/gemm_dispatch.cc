#include <algorithm>

#include "base/cpu_info.h"
#include "base/error.h"
#include "device/cpu/gemm_impl.h"
#include "device/cpu/gemm_packed.h"

namespace plait::cpu {
namespace {

struct Implementation {
  const char* name;
  bool (*run)(const GemmArgs& args, ThreadPool& pool);
  bool (*wanted)(const GemmArgs& args);  // where it stands in a list of candidates; null: always
};

// Runs one of the packed kernels, as an entry of the list below.
template <const PackedKernels& (*kKernels)()>
bool run_packed(const GemmArgs& args, ThreadPool& pool) {
  return gemm_packed(kKernels(), args, pool);
}

#if defined(PLAIT_HAVE_ONEDNN)
// Measured on AVX512 (gemm_bench): oneDNN is the fastest but where a call costs it more than the
// product, and at dot products with few rows.
bool wants_onednn(const GemmArgs& args) {
  const bool small = args.m * args.n * args.k < (int64_t{1} << 18);
  const bool few_rows = args.transpose_b && args.m > 1 && args.m <= 8;
  const bool ours = args.input_dtype == DType::kBF16 ? small : few_rows;
  return !ours && gemm_onednn_supports(args);
}
#endif

std::vector<Implementation> make_implementations() {
  std::vector<Implementation> result;
  result.push_back({"plain", gemm_plain, nullptr});
#if defined(__x86_64__)
  if (cpu_info().avx2) {
    result.push_back({"avx2", run_packed<packed_kernels_avx2>, nullptr});
  }
  if (cpu_info().avx512) {
    result.push_back({"avx512", run_packed<packed_kernels_avx512>, nullptr});
  }
  if (cpu_info().avx512_bf16) {
    result.push_back({"avx512_bf16", run_packed<packed_kernels_avx512_bf16>, nullptr});
  }
#elif defined(__aarch64__)
  result.push_back({"neon", run_packed<packed_kernels_neon>, nullptr});
#endif
#if defined(PLAIT_HAVE_ONEDNN)
  result.push_back({"onednn", gemm_onednn, wants_onednn});
#endif
  return result;
}

// In the order in which gemm_implementations() lists them.
const std::vector<Implementation>& implementations() {
  static const std::vector<Implementation> list = make_implementations();
  return list;
}

void check_gemm_args(const GemmArgs& args) {
  CHECK_GE(args.m, 0);
  CHECK_GE(args.n, 0);
  CHECK_GE(args.k, 0);
  CHECK(args.input_dtype == DType::kF32 || args.input_dtype == DType::kBF16 ||
        args.input_dtype == DType::kF16);
  CHECK(args.output_dtype == args.input_dtype || args.output_dtype == DType::kF32);
  if (args.m > 0 && args.k > 0) {
    CHECK_GE(args.a_stride, args.transpose_a ? args.m : args.k);
  }
  if (args.n > 0 && args.k > 0) {
    CHECK_GE(args.b_stride, args.transpose_b ? args.k : args.n);
  }
  CHECK_GE(args.c_stride, args.n);
}

// Those that may be chosen for an element type of a and b, best first; "plain" ends the list.
std::vector<Implementation> make_candidates(DType dtype) {
  std::vector<std::string> names;
  // On AVX2 our kernels are the faster ones at most shapes, by far at few rows.
  if (cpu_info().avx512 && dtype != DType::kF16) {
    names.emplace_back("onednn");
  }
  if (dtype == DType::kBF16) {
    names.emplace_back("avx512_bf16");
  }
  names.emplace_back("avx512");
  if (cpu_path_enabled("neon")) {
    names.emplace_back("neon");
  }
  names.emplace_back("avx2");
  names.emplace_back("plain");
  std::vector<Implementation> result;
  for (const std::string& name : names) {
    for (const Implementation& implementation : implementations()) {
      if (implementation.name == name) {
        result.push_back(implementation);
      }
    }
  }
  return result;
}

const Implementation& choose(const GemmArgs& args) {
  static const std::vector<Implementation> f32 = make_candidates(DType::kF32);
  static const std::vector<Implementation> bf16 = make_candidates(DType::kBF16);
  static const std::vector<Implementation> f16 = make_candidates(DType::kF16);
  const std::vector<Implementation>& list = args.input_dtype == DType::kF32    ? f32
                                            : args.input_dtype == DType::kBF16 ? bf16
                                                                               : f16;
  if (args.m == 0 || args.n == 0 || args.k == 0) {
    return list.back();
  }
  for (const Implementation& implementation : list) {
    if (implementation.wanted == nullptr || implementation.wanted(args)) {
      return implementation;
    }
  }
  return list.back();
}

}  // namespace

void gemm(const GemmArgs& args, ThreadPool& pool) {
  check_gemm_args(args);
  CHECK(choose(args).run(args, pool));
}

std::vector<std::string> gemm_implementations() {
  std::vector<std::string> names;
  for (const Implementation& implementation : implementations()) {
    names.emplace_back(implementation.name);
  }
  return names;
}

bool gemm_with(const std::string& name, const GemmArgs& args, ThreadPool& pool) {
  check_gemm_args(args);
  for (const Implementation& implementation : implementations()) {
    if (implementation.name == name) {
      return implementation.run(args, pool);
    }
  }
  return false;
}

std::string gemm_choice(const GemmArgs& args) {
  return choose(args).name;
}

}  // namespace plait::cpu
