// Fast kernels against their plain versions; attention has its own file.
#include "device/fast_kernels.h"

#include <limits>

namespace plait::test {
namespace {

namespace fast = cpu::fast;
namespace plain = cpu::plain;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

struct RowsShape {
  int64_t rows, cols;
};
constexpr RowsShape kRowsShapes[] = {{1, 1}, {3, 7}, {5, 16}, {70, 33}, {40, 768}, {130, 100}};

TEST_P(FastKernelTest, RmsNormForward) {
  for (const auto [rows, cols] : kRowsShapes) {
    for (const int64_t groups : {1, 3}) {
      const int64_t x_stride = groups * cols + 5;
      const int64_t y_stride = groups * cols + 2;
      const Memory memory = {random_array(1, rows * x_stride, dtype(), 3),
                             random_array(2, cols, dtype()),
                             constant_array(rows * y_stride, dtype(), 9),
                             constant_array(rows * groups, DType::kF32, 9)};
      const auto args = [&, n = cols, m = rows](Memory& a) {
        return RmsNormForwardArgs{.x = a[0].ptr(),
                                  .weight = a[1].ptr(),
                                  .y = a[2].ptr(),
                                  .rstd = a[3].ptr(),
                                  .rows = m,
                                  .groups = groups,
                                  .cols = n,
                                  .x_stride = x_stride,
                                  .y_stride = y_stride,
                                  .eps = 1e-5F,
                                  .dtype = dtype()};
      };
      // Rounding the normalised value first may flip the last place of the product twice.
      compare<RmsNormForwardArgs>(plain::rms_norm_forward, fast::rms_norm_forward, memory, args,
                                  dtype() == DType::kF32 ? 2e-6 : 0x1p-8);
    }
  }
}

TEST_P(FastKernelTest, RmsNormBackward) {
  for (const auto [rows, cols] : kRowsShapes) {
    for (const bool accumulate : {false, true}) {
      const int64_t groups = 2;
      const int64_t stride = groups * cols + 3;
      const Memory memory = {
          random_array(1, rows * stride, dtype(), 3),  random_array(2, cols, dtype()),
          random_array(3, rows * groups, DType::kF32), random_array(4, rows * stride, dtype()),
          random_array(5, rows * stride, dtype()),     random_array(6, cols, DType::kF32)};
      const auto args = [&, n = cols, m = rows](Memory& a) {
        return RmsNormBackwardArgs{.x = a[0].ptr(),
                                   .weight = a[1].ptr(),
                                   .rstd = a[2].ptr(),
                                   .grad_y = a[3].ptr(),
                                   .grad_x = a[4].ptr(),
                                   .grad_weight = a[5].ptr(),
                                   .rows = m,
                                   .groups = groups,
                                   .cols = n,
                                   .x_stride = stride,
                                   .grad_y_stride = stride,
                                   .grad_x_stride = stride,
                                   .accumulate = accumulate,
                                   .dtype = dtype()};
      };
      compare<RmsNormBackwardArgs>(plain::rms_norm_backward, fast::rms_norm_backward, memory, args,
                                   1e-5);
    }
  }
}

TEST_P(FastKernelTest, RmsNormBackwardInPlace) {
  const int64_t rows = 20;
  const int64_t cols = 50;
  const Memory memory = {random_array(1, rows * cols, dtype()), random_array(2, cols, dtype()),
                         random_array(3, rows, DType::kF32), random_array(4, rows * cols, dtype()),
                         random_array(6, cols, DType::kF32)};
  const auto args = [&](Memory& a) {
    return RmsNormBackwardArgs{.x = a[0].ptr(),
                               .weight = a[1].ptr(),
                               .rstd = a[2].ptr(),
                               .grad_y = a[3].ptr(),
                               .grad_x = a[3].ptr(),
                               .grad_weight = a[4].ptr(),
                               .rows = rows,
                               .cols = cols,
                               .x_stride = cols,
                               .grad_y_stride = cols,
                               .grad_x_stride = cols,
                               .dtype = dtype()};
  };
  compare<RmsNormBackwardArgs>(plain::rms_norm_backward, fast::rms_norm_backward, memory, args,
                               1e-5);
}

TEST_P(FastKernelTest, Rope) {
  for (const int64_t head_dim : {2, 6, 32, 64, 128}) {
    for (const bool inverse : {false, true}) {
      const int64_t rows = 34;
      const int64_t seq_len = 17;
      const int64_t heads = 3;
      const int64_t stride = heads * head_dim + 7;
      const Memory memory = {random_array(1, rows * stride, dtype()),
                             random_array(2, seq_len * head_dim / 2, DType::kF32),
                             random_array(3, seq_len * head_dim / 2, DType::kF32)};
      const auto args = [&](Memory& a) {
        return RopeArgs{.x = a[0].ptr(),
                        .cos = a[1].ptr(),
                        .sin = a[2].ptr(),
                        .rows = rows,
                        .seq_len = seq_len,
                        .heads = heads,
                        .head_dim = head_dim,
                        .x_stride = stride,
                        .inverse = inverse,
                        .dtype = dtype()};
      };
      compare<RopeArgs>(plain::rope, fast::rope, memory, args);
    }
  }
}

TEST_P(FastKernelTest, Swiglu) {
  for (const auto [rows, cols] : kRowsShapes) {
    // Gates up to 50: far into both tails of the sigmoid.
    const Memory memory = {random_array(1, rows * 2 * cols, dtype(), 50),
                           random_array(2, rows * cols, dtype()),
                           constant_array(rows * 2 * cols, dtype(), 9)};
    compare<SwigluForwardArgs>(
        plain::swiglu_forward, fast::swiglu_forward, memory, [&, n = cols, m = rows](Memory& a) {
          return SwigluForwardArgs{
              .gate_up = a[0].ptr(), .out = a[1].ptr(), .rows = m, .cols = n, .dtype = dtype()};
        });
    compare<SwigluBackwardArgs>(plain::swiglu_backward, fast::swiglu_backward, memory,
                                [&, n = cols, m = rows](Memory& a) {
                                  return SwigluBackwardArgs{.gate_up = a[0].ptr(),
                                                            .grad_out = a[1].ptr(),
                                                            .grad_gate_up = a[2].ptr(),
                                                            .rows = m,
                                                            .cols = n,
                                                            .dtype = dtype()};
                                });
    compare<SwigluBackwardArgs>(plain::swiglu_backward, fast::swiglu_backward, memory,
                                [&, n = cols, m = rows](Memory& a) {
                                  return SwigluBackwardArgs{.gate_up = a[0].ptr(),
                                                            .grad_out = a[1].ptr(),
                                                            .grad_gate_up = a[0].ptr(),
                                                            .rows = m,
                                                            .cols = n,
                                                            .dtype = dtype()};
                                });
  }
}

TEST_P(FastKernelTest, Embedding) {
  for (const auto [rows, cols] : kRowsShapes) {
    std::vector<int32_t> ids;
    for (int64_t r = 0; r < rows; ++r) {
      ids.push_back(static_cast<int32_t>(random_bits(1, 1, static_cast<uint64_t>(r)) % 20));
    }
    const int64_t begin = 5;
    const int64_t count = 10;  // half of the ids are not here
    const Memory memory = {id_array(ids), random_array(2, count * cols, dtype()),
                           random_array(3, rows * cols, dtype()),
                           random_array(4, count * cols, DType::kF32)};
    compare<EmbeddingForwardArgs>(
        plain::embedding_forward, fast::embedding_forward, memory,
        [&, n = cols, m = rows](Memory& a) {
          return EmbeddingForwardArgs{.ids = a[0].ptr(),
                                      .table = a[1].ptr(),
                                      .out = a[2].ptr(),
                                      .rows = m,
                                      .cols = n,
                                      .vocab_begin = begin,
                                      .vocab_count = count,
                                      .dtype = dtype()};
        },
        0);
    compare<EmbeddingBackwardArgs>(
        plain::embedding_backward, fast::embedding_backward, memory,
        [&, n = cols, m = rows](Memory& a) {
          return EmbeddingBackwardArgs{.ids = a[0].ptr(),
                                       .grad_out = a[2].ptr(),
                                       .grad_table = a[3].ptr(),
                                       .rows = m,
                                       .cols = n,
                                       .vocab_begin = begin,
                                       .vocab_count = count,
                                       .dtype = dtype()};
        },
        0);
  }
}

TEST_P(FastKernelTest, CrossEntropy) {
  for (const auto [rows, cols] : {RowsShape{1, 1}, {7, 5}, {12, 64}, {9, 1001}, {3, 9001}}) {
    const int64_t padded = cols + 3;
    const int64_t stride = cols + 6;
    std::vector<int32_t> targets;
    for (int64_t r = 0; r < rows; ++r) {  // below, inside and beyond the shard; masked
      targets.push_back(r % 4 == 3 ? -100 : static_cast<int32_t>(100 + r % 3 * cols / 2));
    }
    Memory memory = {random_array(1, rows * stride, dtype(), 20),
                     constant_array(rows, DType::kF32, 0), constant_array(2 * rows, DType::kF32, 0),
                     id_array(targets)};
    const auto max_args = [&, n = cols, m = rows](Memory& a) {
      return RowMaxArgs{.logits = a[0].ptr(),
                        .max = a[1].ptr(),
                        .rows = m,
                        .cols = n,
                        .stride = stride,
                        .dtype = dtype()};
    };
    const auto sum_args = [&, n = cols, m = rows](Memory& a) {
      return SumExpArgs{.logits = a[0].ptr(),
                        .max = a[1].ptr(),
                        .stats = a[2].ptr(),
                        .targets = a[3].ptr(),
                        .rows = m,
                        .cols = n,
                        .stride = stride,
                        .vocab_begin = 100,
                        .dtype = dtype()};
    };
    const auto backward_args = [&, n = cols, m = rows](Memory& a) {
      return CrossEntropyBackwardArgs{.logits = a[0].ptr(),
                                      .max = a[1].ptr(),
                                      .stats = a[2].ptr(),
                                      .targets = a[3].ptr(),
                                      .rows = m,
                                      .cols = n,
                                      .padded_cols = padded,
                                      .stride = stride,
                                      .vocab_begin = 100,
                                      .scale = 0.25F,
                                      .dtype = dtype()};
    };
    compare<RowMaxArgs>(plain::row_max, fast::row_max, memory, max_args, 0);
    plain::row_max(max_args(memory));
    compare<SumExpArgs>(plain::sum_exp, fast::sum_exp, memory, sum_args);
    plain::sum_exp(sum_args(memory));
    compare<CrossEntropyBackwardArgs>(plain::cross_entropy_backward, fast::cross_entropy_backward,
                                      memory, backward_args);
  }
}

TEST_P(FastKernelTest, NonFiniteLogitsShowInTheSum) {
  for (const float bad : {kInfinity, std::numeric_limits<float>::quiet_NaN()}) {
    std::vector<float> logits = random_values(1, 100);
    logits[37] = bad;
    Memory a = {{encode(logits, dtype()), dtype()},
                constant_array(1, DType::kF32, 0),
                constant_array(2, DType::kF32, 0),
                id_array({3})};
    ThreadPool pool({.num_threads = 1, .spin_us = 0});
    fast::row_max({.logits = a[0].ptr(),
                   .max = a[1].ptr(),
                   .rows = 1,
                   .cols = 100,
                   .stride = 100,
                   .dtype = dtype()},
                  pool);
    fast::sum_exp({.logits = a[0].ptr(),
                   .max = a[1].ptr(),
                   .stats = a[2].ptr(),
                   .targets = a[3].ptr(),
                   .rows = 1,
                   .cols = 100,
                   .stride = 100,
                   .dtype = dtype()},
                  pool);
    EXPECT_TRUE(std::isnan(a[2].values()[0])) << bad;
  }
}

TEST_P(FastKernelTest, AddAndAddBiasAndColumnSum) {
  for (const auto [rows, cols] : kRowsShapes) {
    const int64_t stride = cols + 3;
    const Memory memory = {random_array(1, rows * stride, dtype()),
                           random_array(2, rows * stride, dtype()), random_array(3, cols, dtype()),
                           random_array(4, cols, DType::kF32)};
    compare<AddArgs>(plain::add, fast::add, memory, [&, m = rows](Memory& a) {
      return AddArgs{.x = a[0].ptr(),
                     .other = a[1].ptr(),
                     .y = a[0].ptr(),
                     .count = m * stride,
                     .dtype = dtype()};
    });
    compare<AddBiasArgs>(plain::add_bias, fast::add_bias, memory,
                         [&, n = cols, m = rows](Memory& a) {
                           return AddBiasArgs{.x = a[0].ptr(),
                                              .bias = a[2].ptr(),
                                              .rows = m,
                                              .cols = n,
                                              .stride = stride,
                                              .dtype = dtype()};
                         });
    compare<ColumnSumArgs>(plain::column_sum, fast::column_sum, memory,
                           [&, n = cols, m = rows](Memory& a) {
                             return ColumnSumArgs{.x = a[0].ptr(),
                                                  .out = a[3].ptr(),
                                                  .rows = m,
                                                  .cols = n,
                                                  .stride = stride,
                                                  .dtype = dtype()};
                           });
  }
}

TEST_P(FastKernelTest, CastKeepsSpecialValuesAndRoundsToEven) {
  std::vector<float> values = random_values(1, 1000, 70000);  // beyond the range of f16
  for (const float x : {0.0F, -0.0F, kInfinity, -kInfinity, 1.0F + 0x1p-8F, 1.0F + 3 * 0x1p-8F,
                        1.0F + 0x1p-11F, 65519.0F, 65520.0F, 0x1p-24F, 0x1.8p-25F, 3e38F, 1e-40F,
                        std::numeric_limits<float>::quiet_NaN()}) {
    values.push_back(x);
  }
  for (const DType to : {DType::kF32, DType::kBF16, DType::kF16}) {
    const auto count = static_cast<int64_t>(values.size());
    const Memory memory = {{encode(values, dtype()), dtype()}, constant_array(count, to, 7)};
    compare<CastArgs>(
        plain::cast, fast::cast, memory,
        [&](Memory& a) {
          return CastArgs{.source = a[0].ptr(),
                          .destination = a[1].ptr(),
                          .count = count,
                          .source_dtype = dtype(),
                          .destination_dtype = to};
        },
        0);
    ThreadPool pool({.num_threads = 1, .spin_us = 0});
    Memory a = memory;
    fast::cast({.source = a[0].ptr(),
                .destination = a[1].ptr(),
                .count = count,
                .source_dtype = dtype(),
                .destination_dtype = to},
               pool);
    EXPECT_EQ(max_difference(a[1].values(), round_to(memory[0].values(), to)), 0) << dtype_name(to);
  }
}

TEST_P(FastKernelTest, ScaleAndSumSquares) {
  for (const int64_t count : {1, 15, 1000, 16384, 40000}) {
    const Memory memory = {random_array(1, count, DType::kF32), constant_array(1, DType::kF32, 2)};
    compare<ScaleArgs>(plain::scale, fast::scale, memory, [&](Memory& a) {
      return ScaleArgs{.x = a[0].ptr(), .count = count, .factor = 0.3F};
    });
    compare<SumSquaresArgs>(
        plain::sum_squares, fast::sum_squares, memory,
        [&](Memory& a) {
          return SumSquaresArgs{.x = a[0].ptr(), .out = a[1].ptr(), .count = count, .weight = 0.5F};
        },
        1e-7);
  }
}

TEST_P(FastKernelTest, Adamw) {
  for (const int64_t count : {1, 15, 5000}) {
    for (const bool copy : {false, true}) {
      HostArray squares = random_array(4, count, DType::kF32);
      std::vector<float> positive = squares.values();
      for (float& x : positive) {
        x *= x;
      }
      squares.bytes = encode(positive, DType::kF32);
      const Memory memory = {
          random_array(1, count, DType::kF32), random_array(2, count, DType::kF32),
          random_array(3, count, DType::kF32), squares, constant_array(count, dtype(), 9)};
      compare<AdamwArgs>(plain::adamw, fast::adamw, memory, [&](Memory& a) {
        return AdamwArgs{.param = a[0].ptr(),
                         .grad = a[1].ptr(),
                         .exp_avg = a[2].ptr(),
                         .exp_avg_sq = a[3].ptr(),
                         .low_precision = copy ? a[4].ptr() : DevicePtr(),
                         .count = count,
                         .lr = 0.1,
                         .beta1 = 0.9,
                         .beta2 = 0.95,
                         .eps = 1e-8,
                         .weight_decay = 0.1,
                         .grad_scale = 0.7F,
                         .step = 3,
                         .low_precision_dtype = dtype()};
      });
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Each, FastKernelTest, each_isa_and_dtype(), isa_and_dtype);

}  // namespace
}  // namespace plait::test
