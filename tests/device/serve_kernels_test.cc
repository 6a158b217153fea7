// The serving operators with each instruction set of this CPU, and on the guard device: against
// sums in double and the plain versions, and bit for bit against themselves with other batches,
// chunks, thread counts and pieces.
#include "device/serve_kernels.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <memory>
#include <numeric>
#include <string>
#include <utility>

#include "device/serve_isa.h"
#include "support/test_device.h"

namespace plait::test {
namespace {

using Floats = std::vector<float>;

const char* format_name(WeightFormat format) {
  return format == WeightFormat::kF32 ? "f32" : format == WeightFormat::kBF16 ? "bf16" : "int8";
}

constexpr WeightFormat kFormats[] = {WeightFormat::kF32, WeightFormat::kBF16, WeightFormat::kInt8};

// The parameter is an instruction set, or "guard": the best one on that device.
class ServeKernels : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    use_serve_isa(GetParam());
    use_threads(2);
  }
  void TearDown() override { cpu::serve::force_isa(""); }

  void use_threads(int num_threads) {
    device_ = make_test_device(GetParam() == "guard" ? "guard" : "cpu", num_threads);
  }
  Device& device() { return *device_; }
  Kernels& kernels() { return device_->kernels(); }
  Stream& stream() { return device_->stream(); }
  Tensor empty(std::vector<int64_t> shape, DType dtype) {
    return Tensor(*device_, std::move(shape), dtype, MemoryCategory::kWorkspace);
  }

  // W [n, k], packed in the given pieces (first row, rows).
  using Pieces = std::vector<std::pair<int64_t, int64_t>>;
  std::unique_ptr<Buffer> pack(const PackedWeight& weight, const Floats& values,
                               const Pieces& pieces) {
    const Tensor source = upload(*device_, {weight.n, weight.k}, values, DType::kBF16);
    auto packed = std::make_unique<Buffer>(*device_, kernels().packed_weight_bytes(weight),
                                           MemoryCategory::kWeights);
    for (const auto& [begin, rows] : pieces) {
      kernels().pack_weight(stream(), {.source = source.ptr() + begin * weight.k * 2,
                                       .packed = packed->ptr(),
                                       .weight = weight,
                                       .row_begin = begin,
                                       .rows = rows,
                                       .source_stride = weight.k,
                                       .source_dtype = DType::kBF16});
    }
    stream().synchronize();
    return packed;
  }

  struct Product {
    PackedWeight weight;
    int64_t m = 0;
    DType a_dtype = DType::kF32, c_dtype = DType::kF32;
    bool bias = false, accumulate = false;
  };

  // c for the given rows of a, all of one packed weight; strides are wider than the rows.
  Floats multiply(const Product& product, const Floats& a, const Floats& w, const Floats& c) {
    const auto& [weight, m, a_dtype, c_dtype, has_bias, accumulate] = product;
    const int64_t first = std::min<int64_t>(weight.n, 19);
    const auto packed = pack(weight, w, {{first, weight.n - first}, {0, first}});
    const Tensor a_tensor = upload(*device_, {m, weight.k + 3}, a, a_dtype);
    const Tensor c_tensor = upload(*device_, {m, weight.n + 2}, c, c_dtype);
    const Tensor bias = upload(*device_, {weight.n}, random_values(4, weight.n));
    MatmulPackedArgs args;
    args.a = a_tensor.ptr();
    args.packed = packed->ptr();
    args.c = c_tensor.ptr();
    args.bias = has_bias ? bias.ptr() : DevicePtr();
    args.weight = weight;
    args.m = m;
    args.a_stride = weight.k + 3;
    args.c_stride = weight.n + 2;
    args.accumulate = accumulate;
    args.a_dtype = a_dtype;
    args.c_dtype = c_dtype;
    kernels().matmul_packed(stream(), args);
    return download(*device_, c_tensor);
  }

  std::unique_ptr<Device> device_;
};

// What the products should be, and how far they may be from it.
struct Expected {
  Floats values, limits;
};

Expected expected_product(const PackedWeight& weight, int64_t m, const Floats& a, const Floats& w) {
  Expected result;
  for (int64_t r = 0; r < m; ++r) {
    for (int64_t c = 0; c < weight.n; ++c) {
      double sum = 0;
      double size = 0;
      double largest_w = 0;
      double largest_a = 0;
      double sum_a = 0;
      double sum_w = 0;
      for (int64_t i = 0; i < weight.k; ++i) {
        const double x = a[index(r * (weight.k + 3) + i)];
        const double y = w[index(c * weight.k + i)];
        sum += x * y;
        size += std::abs(x * y);
        largest_w = std::max(largest_w, std::abs(y));
        largest_a = std::max(largest_a, std::abs(x));
        sum_a += std::abs(x);
        sum_w += std::abs(y);
      }
      double limit = size * 1e-6;
      if (weight.format == WeightFormat::kInt8) {
        limit += largest_w / 252 * sum_a + largest_a / 65534 * sum_w;
      }
      result.values.push_back(static_cast<float>(sum));
      result.limits.push_back(static_cast<float>(limit));
    }
  }
  return result;
}

TEST_P(ServeKernels, ProductIsRight) {
  for (const WeightFormat format : kFormats) {
    for (const auto& [m, n, k] : std::vector<std::tuple<int64_t, int64_t, int64_t>>{
             {1, 1, 1}, {2, 40, 33}, {5, 16, 64}, {7, 100, 40}, {13, 31, 601}, {70, 150, 555}}) {
      const PackedWeight weight{n, k, format};
      const Floats a = round_to(random_values(1, m * (k + 3)), DType::kBF16);
      const Floats w = round_to(random_values(2, n * k), DType::kBF16);
      const Expected expected = expected_product(weight, m, a, w);
      for (const DType a_dtype : {DType::kF32, DType::kBF16}) {
        const Floats c = multiply({weight, m, a_dtype}, a, w, Floats(index(m * (n + 2)), 7.0F));
        for (int64_t i = 0; i < m * n; ++i) {
          ASSERT_NEAR(c[index(i / n * (n + 2) + i % n)], expected.values[index(i)],
                      expected.limits[index(i)])
              << format_name(format) << " " << m << " x " << n << " x " << k << " at " << i;
        }
        EXPECT_EQ(c[index(n)], 7) << "wrote beyond the row";
      }
    }
  }
}

TEST_P(ServeKernels, ProductAddsBiasAndResidual) {
  const PackedWeight weight{37, 20, WeightFormat::kBF16};
  const int64_t m = 9;
  const Floats a = round_to(random_values(1, m * 23), DType::kBF16);
  const Floats w = round_to(random_values(2, 37 * 20), DType::kBF16);
  const Floats residual = round_to(random_values(3, m * 39), DType::kBF16);
  const Floats bias = random_values(4, 37);
  const Floats bare = multiply({weight, m, DType::kBF16}, a, w, residual);
  for (const DType c_dtype : {DType::kF32, DType::kBF16}) {
    const Floats c = multiply({weight, m, DType::kBF16, c_dtype, true, true}, a, w, residual);
    Floats sum;
    for (int64_t i = 0; i < m * 39; ++i) {
      sum.push_back(i % 39 < 37 ? bare[index(i)] + bias[index(i % 39)] + residual[index(i)]
                                : residual[index(i)]);
    }
    EXPECT_EQ(c, round_to(sum, c_dtype));
  }
}

// Every row of a large product, alone or in other company, on any number of threads.
TEST_P(ServeKernels, ProductDoesNotDependOnTheBatch) {
  const int64_t rows = GetParam() == "plain" ? 8 : is_emulated(GetParam()) ? 60 : 290;
  const int64_t n = 150;
  const int64_t k = 1100;  // more than a block of depths; all rows together also cut into blocks
  const Floats a = random_values(1, rows * (k + 3));
  const Floats w = random_values(2, n * k);
  for (const WeightFormat format : kFormats) {
    for (const DType a_dtype : {DType::kF32, DType::kBF16}) {
      use_threads(1);
      const PackedWeight weight{n, k, format};
      const Floats all = multiply({weight, rows, a_dtype}, a, w, Floats(index(rows * (n + 2))));
      for (const int64_t m : {1, 2, 3, 4, 5, 6, 7, 11, 16, 33, 40}) {
        if (m >= rows) {
          continue;
        }
        use_threads(static_cast<int>(m % 3) + 1);
        const int64_t first = rows - m - m % 2;
        const Floats part(a.begin() + first * (k + 3), a.begin() + (first + m) * (k + 3));
        const Floats c = multiply({weight, m, a_dtype}, part, w, Floats(index(m * (n + 2))));
        EXPECT_TRUE(std::equal(c.begin(), c.end(), all.begin() + first * (n + 2)))
            << format_name(format) << " with " << m << " rows";
      }
    }
  }
}

// f32 arithmetic has one right answer: the plain version's, and that of the same weights in f32.
TEST_P(ServeKernels, ProductEqualsThePlainOne) {
  if (is_emulated(GetParam())) {
    GTEST_SKIP() << "the baseline has no fused multiply-add";
  }
  const int64_t m = 8;
  const int64_t n = 50;
  const int64_t k = 301;
  const Floats a = random_values(1, m * (k + 3));
  const Floats w = round_to(random_values(2, n * k), DType::kBF16);
  for (const WeightFormat format : kFormats) {
    const Product product{{n, k, format}, m};
    const Floats c = multiply(product, a, w, Floats(index(m * (n + 2))));
    if (format == WeightFormat::kBF16) {
      EXPECT_EQ(c, multiply({{n, k, WeightFormat::kF32}, m}, a, w, Floats(index(m * (n + 2)))));
    }
    cpu::serve::force_isa("plain");
    EXPECT_EQ(c, multiply(product, a, w, Floats(index(m * (n + 2))))) << format_name(format);
    SetUp();
  }
}

// Weights of 16 levels in groups of 32, as GGUF files have them, are kept as they are; so are
// groups of one value.
TEST_P(ServeKernels, Int8KeepsFewLevels) {
  const int64_t k = 96;
  const PackedWeight weight{20, k, WeightFormat::kInt8};
  Floats w;
  for (int64_t i = 0; i < 20 * k; ++i) {
    const int64_t group = i / kInt8Group;
    const auto level = static_cast<float>(i % kInt8Group * 7 % 16);
    w.push_back(group % 5 == 4 ? 0.125F : 0.5F * level * static_cast<float>(group % 3 + 1) - 3);
  }
  const auto packed = pack(weight, w, {{0, 20}});
  std::vector<int32_t> ids(20);
  std::iota(ids.begin(), ids.end(), 0);
  const Tensor id_tensor = upload_ids(device(), ids);
  const Tensor out = empty({20, k}, DType::kF32);
  kernels().embedding_packed(stream(), {.ids = id_tensor.ptr(),
                                        .packed = packed->ptr(),
                                        .out = out.ptr(),
                                        .weight = weight,
                                        .rows = 20});
  const Floats values = download(device(), out);
  for (size_t i = 0; i < values.size(); ++i) {
    ASSERT_NEAR(values[i], w[i], 0.01) << i;  // half a step of other weights would be 0.04
  }
}

TEST_P(ServeKernels, Int8ProductOfExtremes) {
  // All of one sign and size: the sum is as large as it gets. Then values that are not finite.
  const int64_t k = 4096;
  const PackedWeight weight{16, k, WeightFormat::kInt8};
  Floats a(index(4 * (k + 3)), 3.0F);
  std::fill_n(a.begin() + 1 * (k + 3), k, 0.0F);
  a[index(2 * (k + 3) + 5)] = std::numeric_limits<float>::infinity();
  a[index(3 * (k + 3) + 7)] = std::numeric_limits<float>::quiet_NaN();
  // -2 and 1.984375 in turn: -128 and 127 of scale 1/64, which has no rounding.
  Floats w(index(16 * k), -2.0F);
  for (size_t i = 0; i < w.size(); i += 2) {
    w[i] = 127.0F / 64;
  }
  for (int64_t i = 1; i < k; i += 2) {
    a[index(i)] = -3.0F;
  }
  const Floats c = multiply({weight, 4}, a, w, Floats(4 * 18));
  EXPECT_NEAR(c[0], 3 * (2 + 127.0F / 64) * 2048, 1e-2);
  EXPECT_EQ(c[18], 0);
  EXPECT_TRUE(std::isnan(c[36]));
  EXPECT_TRUE(std::isnan(c[54]));
}

// Weights far from zero, all alike: the integers of a group are as large as they get.
TEST_P(ServeKernels, Int8ProductFarFromZero) {
  const int64_t k = 512;
  const PackedWeight weight{16, k, WeightFormat::kInt8};
  for (const int64_t m : {1, 7, 40, 300}) {
    for (const float w : {5.0F, -5.0F}) {
      const Floats c = multiply({weight, m}, Floats(index(m * (k + 3)), 3.0F),
                                Floats(index(16 * k), w), Floats(index(m * 18)));
      const float expected = 3 * w * static_cast<float>(k);
      EXPECT_NEAR(c[0], expected, 5) << m << " rows";
      EXPECT_NEAR(c[index((m - 1) * 18 + 15)], expected, 5) << m << " rows";
    }
  }
}

TEST_P(ServeKernels, EmbeddingGivesTheRowsBack) {
  for (const WeightFormat format : kFormats) {
    const PackedWeight weight{37, 21, format};
    const Floats w = round_to(random_values(1, 37 * 21), DType::kBF16);
    const auto packed = pack(weight, w, {{20, 17}, {0, 3}, {3, 17}});
    const std::vector<int32_t> ids = {100, 136, 137, 99, 119, 101};
    const Tensor id_tensor = upload_ids(device(), ids);
    const Tensor out = empty({6, 21}, DType::kF32);
    kernels().embedding_packed(stream(), {.ids = id_tensor.ptr(),
                                          .packed = packed->ptr(),
                                          .out = out.ptr(),
                                          .weight = weight,
                                          .rows = 6,
                                          .vocab_begin = 100});
    const Floats values = download(device(), out);
    for (size_t i = 0; i < values.size(); ++i) {
      const int64_t row = ids[i / 21] - 100;
      const float expected = row >= 0 && row < 37 ? w[index(row) * 21 + i % 21] : 0.0F;
      EXPECT_NEAR(values[i], expected, format == WeightFormat::kInt8 ? 0.51 / 127 : 0);
    }
  }
}

TEST_P(ServeKernels, NormRows) {
  for (const DType x_dtype : {DType::kF32, DType::kBF16}) {
    for (const DType y_dtype : {DType::kF32, DType::kBF16}) {
      const int64_t rows = 5;
      const int64_t cols = 77;
      const Floats x = round_to(random_values(1, rows * 80, 3), x_dtype);
      const Floats delta = round_to(random_values(2, rows * 78), x_dtype);
      const Floats weight = random_values(3, cols, 2);
      const Tensor x_tensor = upload(device(), {rows, 80}, x, x_dtype);
      const Tensor delta_tensor = upload(device(), {rows, 78}, delta, x_dtype);
      const Tensor weight_tensor = upload(device(), {cols}, weight);
      const Tensor y = upload(device(), {rows, 79}, Floats(index(rows * 79), 9), y_dtype);
      kernels().norm_rows(stream(), {.x = x_tensor.ptr(),
                                     .delta = delta_tensor.ptr(),
                                     .weight = weight_tensor.ptr(),
                                     .y = y.ptr(),
                                     .rows = rows,
                                     .cols = cols,
                                     .x_stride = 80,
                                     .delta_stride = 78,
                                     .y_stride = 79,
                                     .eps = 1e-5F,
                                     .x_dtype = x_dtype,
                                     .y_dtype = y_dtype});
      const Floats sums = download(device(), x_tensor);
      const Floats normed = download(device(), y);
      for (int64_t r = 0; r < rows; ++r) {
        double squares = 0;
        for (int64_t c = 0; c < cols; ++c) {
          const float sum = round_to({x[index(r * 80 + c)] + delta[index(r * 78 + c)]}, x_dtype)[0];
          ASSERT_EQ(sums[index(r * 80 + c)], sum);
          squares += static_cast<double>(sum) * sum;
        }
        const double rstd = 1 / std::sqrt(squares / static_cast<double>(cols) + 1e-5);
        for (int64_t c = 0; c < cols; ++c) {
          const double value = sums[index(r * 80 + c)] * rstd * weight[index(c)];
          const double unit = y_dtype == DType::kF32 ? 1e-6 : 0x1p-7;
          EXPECT_NEAR(normed[index(r * 79 + c)], value, std::abs(value) * unit + 1e-7);
        }
        EXPECT_EQ(normed[index(r * 79 + cols)], 9);
      }
    }
  }
}

TEST_P(ServeKernels, ArgmaxTakesTheFirstOfEquals) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const Floats logits = {1,   3,   2,   3,   9, nan, -1, -2, -1, 9,
                         nan, nan, nan, nan, 9, -5,  -5, -5, -4, 9};
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    const Tensor tensor = upload(device(), {4, 5}, logits, dtype);
    const Tensor ids = upload_ids(device(), {7, 7, 7, 7});
    const Tensor values = empty({4}, DType::kF32);
    kernels().row_argmax(stream(), {.logits = tensor.ptr(),
                                    .ids = ids.ptr(),
                                    .values = values.ptr(),
                                    .rows = 4,
                                    .cols = 4,
                                    .stride = 5,
                                    .dtype = dtype});
    std::vector<int32_t> result(4);
    stream().copy_to_host(result.data(), ids.ptr(), 16);
    stream().synchronize();
    EXPECT_EQ(result, (std::vector<int32_t>{1, 1, 0, 3}));
    EXPECT_EQ(download(device(), values)[3], -4);
  }
}

TEST(ServeIsas, SaysWhatCouldNotRun) {
  const std::vector<std::string> names = cpu::serve::isa_names();
  for (const char* name : {"avx2", "avx512", "avx512_bf16", "neon"}) {
    if (std::find(names.begin(), names.end(), name) == names.end()) {
      std::printf("not run: this CPU or build has no %s\n", name);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Isa, ServeKernels, testing::ValuesIn(serve_isas()),
                         [](const auto& parameter) { return parameter.param; });

}  // namespace
}  // namespace plait::test
