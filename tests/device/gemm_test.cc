#include "device/cpu/gemm.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <functional>
#include <string>
#include <tuple>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "device/cpu/gemm_impl.h"
#include "device/cpu/gemm_packed.h"

namespace plait::cpu {

// gemm_emulated_*.cc.
const PackedKernels& packed_kernels_avx512_emulated();
const PackedKernels& packed_kernels_avx512_bf16_emulated();
const PackedKernels& packed_kernels_neon_emulated();

namespace {

struct Shape {
  int64_t m, n, k;
};

struct Case {
  Shape shape;
  bool transpose_a = false, transpose_b = false, accumulate = false, bias = false;
  DType input = DType::kF32, output = DType::kF32;
  int64_t padding = 0;  // added to each stride
  std::string describe() const {
    return fmt::format("{}x{}x{} {}{}{}{} {}->{} padding {}", shape.m, shape.n, shape.k,
                       transpose_a ? "T" : "N", transpose_b ? "T" : "N",
                       accumulate ? " accumulate" : "", bias ? " bias" : "", dtype_name(input),
                       dtype_name(output), padding);
  }
};

float value_of(const std::vector<uint8_t>& bytes, DType dtype, int64_t index) {
  const uint8_t* p = bytes.data() + index * dtype_size(dtype);
  if (dtype == DType::kF32) {
    float x;
    std::memcpy(&x, p, 4);
    return x;
  }
  uint16_t bits;
  std::memcpy(&bits, p, 2);
  return dtype == DType::kBF16 ? to_float(BFloat16{bits}) : to_float(Float16{bits});
}

void set_value(std::vector<uint8_t>& bytes, DType dtype, int64_t index, float x) {
  uint8_t* p = bytes.data() + index * dtype_size(dtype);
  const uint16_t half = dtype == DType::kBF16 ? to_bf16(x).bits : to_f16(x).bits;
  if (dtype == DType::kF32) {
    std::memcpy(p, &x, 4);
  } else {
    std::memcpy(p, &half, 2);
  }
}

// Values in [-1, 1) from a small generator; every element of the storage, padding included.
std::vector<uint8_t> random_storage(DType dtype, int64_t count, uint32_t seed) {
  std::vector<uint8_t> bytes(static_cast<size_t>(count * dtype_size(dtype)));
  uint32_t state = seed * 2654435761U + 1;
  for (int64_t i = 0; i < count; ++i) {
    state = state * 1664525U + 1013904223U;
    set_value(bytes, dtype, i, static_cast<float>(state >> 8) / static_cast<float>(1 << 23) - 1);
  }
  return bytes;
}

// The operands of a case in memory that ends right behind them, so that ASan sees a stray read.
struct Problem {
  GemmArgs args;
  std::vector<uint8_t> a, b, c, bias;
  std::vector<float> expected;   // [m, n]
  std::vector<float> tolerance;  // [m, n]
};

int64_t storage_size(int64_t rows, int64_t cols, int64_t stride) {
  return rows == 0 || cols == 0 ? 0 : (rows - 1) * stride + cols;
}

Problem make_problem(const Case& x) {
  Problem p;
  const auto [m, n, k] = x.shape;
  GemmArgs& g = p.args;
  g.m = m, g.n = n, g.k = k;
  g.transpose_a = x.transpose_a, g.transpose_b = x.transpose_b, g.accumulate = x.accumulate;
  g.input_dtype = x.input, g.output_dtype = x.output;
  g.a_stride = (x.transpose_a ? m : k) + x.padding;
  g.b_stride = (x.transpose_b ? k : n) + x.padding;
  g.c_stride = n + x.padding;
  p.a = random_storage(x.input,
                       storage_size(x.transpose_a ? k : m, x.transpose_a ? m : k, g.a_stride), 1);
  p.b = random_storage(x.input,
                       storage_size(x.transpose_b ? n : k, x.transpose_b ? k : n, g.b_stride), 2);
  p.c = random_storage(x.output, storage_size(m, n, g.c_stride), 3);
  p.bias = random_storage(x.input, n, 4);
  g.a = p.a.data(), g.b = p.b.data(), g.c = p.c.data();
  g.bias = x.bias ? p.bias.data() : nullptr;
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      double sum = x.bias ? value_of(p.bias, x.input, j) : 0;
      double size = std::abs(sum);
      for (int64_t d = 0; d < k; ++d) {
        const double term =
            static_cast<double>(
                value_of(p.a, x.input, x.transpose_a ? d * g.a_stride + i : i * g.a_stride + d)) *
            value_of(p.b, x.input, x.transpose_b ? j * g.b_stride + d : d * g.b_stride + j);
        sum += term;
        size += std::abs(term);
      }
      if (x.accumulate) {
        sum += value_of(p.c, x.output, i * g.c_stride + j);
        size += 1;
      }
      // f32 sums: roundings of 2^-24 of a partial sum, of which few add up. Then one rounding of c.
      const double unit = x.output == DType::kF32 ? 0 : x.output == DType::kBF16 ? 0x1p-8 : 0x1p-11;
      p.expected.push_back(static_cast<float>(sum));
      p.tolerance.push_back(
          static_cast<float>(3 * 0x1p-22 * size + unit * 1.001 * std::abs(sum) + 1e-7));
    }
  }
  return p;
}

using RunGemm = std::function<bool(const GemmArgs&, ThreadPool&)>;

// Runs the case and compares c, and that nothing between the rows of c was written.
void check_problem(const Case& x, const Problem& p, const RunGemm& run, ThreadPool& pool) {
  std::vector<uint8_t> c = p.c;
  GemmArgs args = p.args;
  args.c = c.data();
  if (!run(args, pool)) {
    return;
  }
  const auto [m, n, k] = x.shape;
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      const auto index = static_cast<size_t>(i * n + j);
      const float got = value_of(c, x.output, i * args.c_stride + j);
      ASSERT_NEAR(got, p.expected[index], p.tolerance[index])
          << x.describe() << " at " << i << "," << j << " threads " << pool.num_threads();
    }
    const int64_t end =
        std::min(static_cast<int64_t>(c.size()), (i + 1) * args.c_stride * dtype_size(x.output));
    for (int64_t at = (i * args.c_stride + n) * dtype_size(x.output); at < end; ++at) {
      ASSERT_EQ(c[static_cast<size_t>(at)], p.c[static_cast<size_t>(at)])
          << x.describe() << ": byte " << at << " beside row " << i << " was written";
    }
  }
}

const std::vector<Shape>& shapes() {
  static const std::vector<Shape> list = {
      {1, 1, 1},      {1, 2, 3},    {2, 1, 5},    {3, 5, 7},     {5, 7, 16},    {7, 3, 17},
      {6, 16, 8},     {16, 17, 63}, {17, 16, 64}, {13, 31, 65},  {63, 65, 17},  {64, 64, 64},
      {65, 63, 130},  {1, 130, 64}, {130, 1, 65}, {4, 200, 96},  {33, 48, 257}, {130, 65, 300},
      {48, 100, 520}, {200, 7, 70}, {8, 260, 33}, {12, 32, 1},   {32, 12, 2},   {2, 50, 300},
      {5, 33, 260},   {8, 40, 264}, {3, 37, 515}, {270, 20, 30}, {20, 40, 900}};
  return list;
}

// Every shape, pair of types and transposes; the other options take turns, so that every pair of
// them meets on some shape.
std::vector<std::pair<Case, Problem>> make_problems() {
  const std::vector<std::pair<DType, DType>> dtypes = {{DType::kF32, DType::kF32},
                                                       {DType::kBF16, DType::kBF16},
                                                       {DType::kBF16, DType::kF32},
                                                       {DType::kF16, DType::kF16},
                                                       {DType::kF16, DType::kF32}};
  std::vector<std::pair<Case, Problem>> result;
  int turn = 0;
  for (const Shape& shape : shapes()) {
    for (const auto& [input, output] : dtypes) {
      for (int flags = 0; flags < 4; ++flags, ++turn) {
        Case x{.shape = shape, .transpose_a = (flags & 1) != 0, .transpose_b = (flags & 2) != 0};
        x.accumulate = (turn / 4 + turn / 20) % 2 == 1;
        x.bias = (turn / 3) % 2 == 1;
        x.input = input;
        x.output = output;
        x.padding = turn % 3 == 0 ? 0 : turn % 7 + 1;
        result.emplace_back(x, make_problem(x));
      }
    }
  }
  return result;
}

void check_all(const RunGemm& run, int num_threads) {
  static const std::vector<std::pair<Case, Problem>> problems = make_problems();
  ThreadPool pool({.num_threads = num_threads, .spin_us = 0});
  for (const auto& [x, problem] : problems) {
    check_problem(x, problem, run, pool);
    if (::testing::Test::HasFatalFailure()) {
      return;
    }
  }
}

class GemmImplementationTest : public ::testing::TestWithParam<std::string> {
 protected:
  RunGemm run() const {
    const std::string name = GetParam();
    return [name](const GemmArgs& args, ThreadPool& pool) { return gemm_with(name, args, pool); };
  }
};

TEST_P(GemmImplementationTest, MatchesDoublePrecisionWithOneThread) {
  check_all(run(), 1);
}
TEST_P(GemmImplementationTest, MatchesDoublePrecisionWithTwoThreads) {
  check_all(run(), 2);
}
TEST_P(GemmImplementationTest, MatchesDoublePrecisionWithThreeThreads) {
  check_all(run(), 3);
}

INSTANTIATE_TEST_SUITE_P(Each, GemmImplementationTest, ::testing::ValuesIn(gemm_implementations()),
                         [](const auto& test) { return test.param; });

template <const PackedKernels& (*kKernels)()>
bool run_packed(const GemmArgs& args, ThreadPool& pool) {
  return gemm_packed(kKernels(), args, pool);
}

// The kernels of other instruction sets, compiled for this one.
TEST(EmulatedGemmTest, Avx512MatchesDoublePrecision) {
  check_all(run_packed<packed_kernels_avx512_emulated>, 2);
}
TEST(EmulatedGemmTest, Avx512Bf16MatchesDoublePrecision) {
  check_all(run_packed<packed_kernels_avx512_bf16_emulated>, 2);
}
TEST(EmulatedGemmTest, NeonMatchesDoublePrecision) {
  check_all(run_packed<packed_kernels_neon_emulated>, 2);
}

#if defined(PLAIT_HAVE_ONEDNN)
// The way bf16 takes through oneDNN where the CPU has AVX512, in f32 everywhere.
TEST(OneDnnGemmTest, PrimitiveMatchesDoublePrecision) {
  check_all(
      [](const GemmArgs& args, ThreadPool& pool) {
        return args.input_dtype == DType::kF32 && gemm_onednn_matmul(args, pool);
      },
      2);
}
#endif

// Says which instruction sets this run could not test on their hardware.
TEST(GemmTest, NamesWhatCouldNotRun) {
  const std::vector<std::string> present = gemm_implementations();
  for (const char* name : {"avx2", "avx512", "avx512_bf16", "neon", "onednn"}) {
    if (std::find(present.begin(), present.end(), name) == present.end()) {
      std::printf("not run on hardware here: %s\n", name);
    }
  }
  EXPECT_EQ(present.front(), "plain");
}

TEST(GemmTest, ResultDoesNotDependOnThreadCount) {
  for (const std::string& name : gemm_implementations()) {
    if (name == "onednn") {
      continue;
    }
    for (const Shape& shape : {Shape{40, 300, 700}, Shape{300, 40, 700}, Shape{3, 300, 700}}) {
      const DType input = name == "avx512_bf16" ? DType::kBF16 : DType::kF32;  // it takes no other
      const Problem p = make_problem({.shape = shape, .transpose_b = true, .input = input});
      std::vector<uint8_t> first;
      for (const int threads : {1, 2, 3}) {
        ThreadPool pool({.num_threads = threads, .spin_us = 0});
        std::vector<uint8_t> c = p.c;
        GemmArgs args = p.args;
        args.c = c.data();
        ASSERT_TRUE(gemm_with(name, args, pool));
        if (threads == 1) {
          first = c;
        }
        EXPECT_EQ(first, c) << name << " with " << threads << " threads";
      }
    }
  }
}

TEST(GemmTest, EmptySizes) {
  ThreadPool pool({.num_threads = 2, .spin_us = 0});
  const RunGemm run = [](const GemmArgs& args, ThreadPool& p) {
    gemm(args, p);
    return true;
  };
  for (const Shape& shape : {Shape{0, 5, 3}, Shape{5, 0, 3}, Shape{5, 3, 0}, Shape{0, 0, 0}}) {
    for (const bool on : {false, true}) {
      const Case x{.shape = shape, .accumulate = on, .bias = !on};
      check_problem(x, make_problem(x), run, pool);
    }
  }
}

}  // namespace
}  // namespace plait::cpu
