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
};

#if defined(__x86_64__)
bool gemm_avx2(const GemmArgs& args, ThreadPool& pool) {
  return gemm_packed(packed_kernels_avx2(), args, pool);
}
#endif

std::vector<Implementation> make_implementations() {
  std::vector<Implementation> result;
  result.push_back({"plain", gemm_plain});
#if defined(__x86_64__)
  if (cpu_info().avx2) {
    result.push_back({"avx2", gemm_avx2});
  }
#endif
#if defined(PLAIT_HAVE_ONEDNN)
  result.push_back({"onednn", gemm_onednn});
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

}  // namespace

void gemm(const GemmArgs& args, ThreadPool& pool) {
  gemm_with(gemm_choice(args), args, pool);
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
  return cpu_info().avx2 && args.k > 0 ? "avx2" : "plain";
}

}  // namespace plait::cpu
