// Every operator of the kernel table on every device: forward against double-precision formulas,
// backward against finite differences of those formulas.
#include <gtest/gtest.h>

#include <cmath>

#include "support/gradients.h"
#include "support/test_device.h"

namespace plait {
namespace {

using test::download;
using test::expect_near;
using test::numeric_gradient;
using test::random_values;
using test::to_double;
using test::to_single;
using test::upload;
using test::Values;
using test::weighted_sum;

class KernelGradientsTest : public testing::TestWithParam<std::string> {
 protected:
  Tensor put(std::vector<int64_t> shape, const std::vector<float>& values) {
    return upload(*device_, std::move(shape), values);
  }
  Tensor zeros(std::vector<int64_t> shape) {
    Tensor tensor(*device_, std::move(shape), DType::kF32, MemoryCategory::kWorkspace);
    stream().zero(tensor.ptr(), tensor.bytes());
    return tensor;
  }
  std::vector<float> get(const Tensor& tensor) { return download(*device_, tensor); }
  Kernels& kernels() { return device_->kernels(); }
  Stream& stream() { return device_->stream(); }
  Device& device() { return *device_; }

 private:
  std::unique_ptr<Device> device_ = test::make_test_device(GetParam());
};

constexpr double kEps = 1e-5;

Values rms_norm(const Values& x, const Values& weight) {
  const size_t cols = weight.size();
  Values y(x.size());
  for (size_t row = 0; row < x.size(); row += cols) {
    double sum = 0;
    for (size_t c = 0; c < cols; ++c) {
      sum += x[row + c] * x[row + c];
    }
    for (size_t c = 0; c < cols; ++c) {
      y[row + c] = x[row + c] / std::sqrt(sum / static_cast<double>(cols) + kEps) * weight[c];
    }
  }
  return y;
}

TEST_P(KernelGradientsTest, RmsNorm) {
  constexpr int64_t kRows = 5;
  constexpr int64_t kCols = 19;
  const std::vector<float> x = random_values(1, kRows * kCols);
  const std::vector<float> weight = random_values(2, kCols);
  const std::vector<float> grad = random_values(3, kRows * kCols);
  const Tensor dx = put({kRows, kCols}, x);
  const Tensor dw = put({kCols}, weight);
  const Tensor dy = zeros({kRows, kCols});
  const Tensor rstd = zeros({kRows});
  const Tensor grad_x = put({kRows, kCols}, grad);  // in place
  const Tensor grad_weight = zeros({kCols});
  kernels().rms_norm_forward(stream(), {.x = dx.ptr(),
                                        .weight = dw.ptr(),
                                        .y = dy.ptr(),
                                        .rstd = rstd.ptr(),
                                        .rows = kRows,
                                        .cols = kCols,
                                        .x_stride = kCols,
                                        .y_stride = kCols,
                                        .eps = static_cast<float>(kEps)});
  kernels().rms_norm_backward(stream(), {.x = dx.ptr(),
                                         .weight = dw.ptr(),
                                         .rstd = rstd.ptr(),
                                         .grad_y = grad_x.ptr(),
                                         .grad_x = grad_x.ptr(),
                                         .grad_weight = grad_weight.ptr(),
                                         .rows = kRows,
                                         .cols = kCols,
                                         .x_stride = kCols,
                                         .grad_y_stride = kCols,
                                         .grad_x_stride = kCols});
  expect_near(get(dy), to_single(rms_norm(to_double(x), to_double(weight))));
  expect_near(get(grad_x), numeric_gradient(
                               [&](const Values& v) {
                                 return weighted_sum(rms_norm(v, to_double(weight)), grad);
                               },
                               to_double(x)));
  expect_near(get(grad_weight),
              numeric_gradient(
                  [&](const Values& v) { return weighted_sum(rms_norm(to_double(x), v), grad); },
                  to_double(weight)));
}

TEST_P(KernelGradientsTest, RopeInverseIsTheTranspose) {
  constexpr int64_t kRows = 6;
  constexpr int64_t kSeqLen = 3;
  constexpr int64_t kHeads = 2;
  constexpr int64_t kDim = 10;
  std::vector<float> cos;
  std::vector<float> sin;
  for (int64_t i = 0; i < kSeqLen * kDim / 2; ++i) {
    cos.push_back(std::cos(static_cast<float>(i)));
    sin.push_back(std::sin(static_cast<float>(i)));
  }
  const std::vector<float> x = random_values(1, kRows * kHeads * kDim);
  const std::vector<float> grad = random_values(2, kRows * kHeads * kDim);
  const auto rotate = [&](const Values& v) {
    Values y = v;
    for (int64_t r = 0; r < kRows; ++r) {
      for (int64_t h = 0; h < kHeads; ++h) {
        for (int64_t i = 0; i < kDim / 2; ++i) {
          const auto a = static_cast<size_t>((r * kHeads + h) * kDim + i);
          const size_t b = a + kDim / 2;
          const auto angle = static_cast<size_t>(r % kSeqLen * kDim / 2 + i);
          y[a] = v[a] * cos[angle] - v[b] * sin[angle];
          y[b] = v[b] * cos[angle] + v[a] * sin[angle];
        }
      }
    }
    return y;
  };
  const Tensor cos_table = put({kSeqLen, kDim / 2}, cos);
  const Tensor sin_table = put({kSeqLen, kDim / 2}, sin);
  const Tensor y = put({kRows, kHeads * kDim}, x);
  const Tensor grad_x = put({kRows, kHeads * kDim}, grad);
  for (const bool inverse : {false, true}) {
    kernels().rope(stream(), {.x = inverse ? grad_x.ptr() : y.ptr(),
                              .cos = cos_table.ptr(),
                              .sin = sin_table.ptr(),
                              .rows = kRows,
                              .seq_len = kSeqLen,
                              .heads = kHeads,
                              .head_dim = kDim,
                              .x_stride = kHeads * kDim,
                              .inverse = inverse});
  }
  expect_near(get(y), to_single(rotate(to_double(x))));
  expect_near(get(grad_x),
              numeric_gradient([&](const Values& v) { return weighted_sum(rotate(v), grad); },
                               to_double(x)));
}

struct AttentionShape {
  int64_t batch, seq_len, heads, kv_heads, dim;
  double scale;
};

// q, k and v side by side in each row, as one fused projection leaves them.
Values attention(const Values& qkv, const AttentionShape& s) {
  const int64_t stride = (s.heads + 2 * s.kv_heads) * s.dim;
  const auto at = [&](int64_t row, int64_t head, int64_t i) {
    return qkv[static_cast<size_t>(row * stride + head * s.dim + i)];
  };
  Values out;
  for (int64_t row = 0; row < s.batch * s.seq_len; ++row) {
    for (int64_t h = 0; h < s.heads; ++h) {
      const int64_t kv = h / (s.heads / s.kv_heads);
      Values sums(static_cast<size_t>(s.dim));
      double total = 0;
      for (int64_t t = row / s.seq_len * s.seq_len; t <= row; ++t) {
        double score = 0;
        for (int64_t i = 0; i < s.dim; ++i) {
          score += at(row, h, i) * at(t, s.heads + kv, i);
        }
        const double p = std::exp(score * s.scale);
        total += p;
        for (int64_t i = 0; i < s.dim; ++i) {
          sums[static_cast<size_t>(i)] += p * at(t, s.heads + s.kv_heads + kv, i);
        }
      }
      for (const double sum : sums) {
        out.push_back(sum / total);
      }
    }
  }
  return out;
}

TEST_P(KernelGradientsTest, Attention) {
  for (const AttentionShape& s :
       {AttentionShape{2, 7, 4, 2, 6, 0.4}, AttentionShape{1, 70, 2, 1, 4, 0.5}}) {
    const int64_t rows = s.batch * s.seq_len;
    const int64_t stride = (s.heads + 2 * s.kv_heads) * s.dim;
    const int64_t width = s.heads * s.dim;
    const std::vector<float> x = random_values(1, rows * stride);
    const std::vector<float> grad = random_values(2, rows * width);
    const Tensor qkv = put({rows, stride}, x);
    const Tensor grad_out = put({rows, width}, grad);
    const Tensor out = zeros({rows, width});
    const Tensor lse = zeros({s.heads, rows});
    const Tensor scratch = zeros({s.heads, rows});
    const Tensor grad_qkv = zeros({rows, stride});
    const int64_t k_offset = s.heads * s.dim * 4;
    const int64_t v_offset = (s.heads + s.kv_heads) * s.dim * 4;
    kernels().attention_forward(stream(), {.q = qkv.ptr(),
                                           .k = qkv.ptr() + k_offset,
                                           .v = qkv.ptr() + v_offset,
                                           .out = out.ptr(),
                                           .lse = lse.ptr(),
                                           .batch = s.batch,
                                           .seq_len = s.seq_len,
                                           .heads = s.heads,
                                           .kv_heads = s.kv_heads,
                                           .head_dim = s.dim,
                                           .q_stride = stride,
                                           .k_stride = stride,
                                           .v_stride = stride,
                                           .out_stride = width,
                                           .scale = static_cast<float>(s.scale)});
    kernels().attention_backward(stream(), {.q = qkv.ptr(),
                                            .k = qkv.ptr() + k_offset,
                                            .v = qkv.ptr() + v_offset,
                                            .out = out.ptr(),
                                            .lse = lse.ptr(),
                                            .grad_out = grad_out.ptr(),
                                            .grad_q = grad_qkv.ptr(),
                                            .grad_k = grad_qkv.ptr() + k_offset,
                                            .grad_v = grad_qkv.ptr() + v_offset,
                                            .scratch = scratch.ptr(),
                                            .batch = s.batch,
                                            .seq_len = s.seq_len,
                                            .heads = s.heads,
                                            .kv_heads = s.kv_heads,
                                            .head_dim = s.dim,
                                            .q_stride = stride,
                                            .k_stride = stride,
                                            .v_stride = stride,
                                            .out_stride = width,
                                            .grad_out_stride = width,
                                            .grad_q_stride = stride,
                                            .grad_k_stride = stride,
                                            .grad_v_stride = stride,
                                            .scale = static_cast<float>(s.scale)});
    expect_near(get(out), to_single(attention(to_double(x), s)));
    expect_near(
        get(grad_qkv),
        numeric_gradient([&](const Values& v) { return weighted_sum(attention(v, s), grad); },
                         to_double(x)));
  }
}

TEST_P(KernelGradientsTest, Swiglu) {
  constexpr int64_t kRows = 3;
  constexpr int64_t kCols = 21;
  const std::vector<float> x = random_values(1, kRows * 2 * kCols, 3);
  const std::vector<float> grad = random_values(2, kRows * kCols);
  const auto swiglu = [&](const Values& v) {
    Values y;
    for (size_t r = 0; r < kRows; ++r) {
      for (size_t c = 0; c < kCols; ++c) {
        const double gate = v[r * 2 * kCols + c];
        y.push_back(gate / (1 + std::exp(-gate)) * v[r * 2 * kCols + kCols + c]);
      }
    }
    return y;
  };
  const Tensor gate_up = put({kRows, 2 * kCols}, x);
  const Tensor grad_out = put({kRows, kCols}, grad);
  const Tensor out = zeros({kRows, kCols});
  kernels().swiglu_forward(
      stream(), {.gate_up = gate_up.ptr(), .out = out.ptr(), .rows = kRows, .cols = kCols});
  kernels().swiglu_backward(stream(), {.gate_up = gate_up.ptr(),
                                       .grad_out = grad_out.ptr(),
                                       .grad_gate_up = gate_up.ptr(),
                                       .rows = kRows,
                                       .cols = kCols});
  expect_near(get(out), to_single(swiglu(to_double(x))));
  expect_near(get(gate_up),
              numeric_gradient([&](const Values& v) { return weighted_sum(swiglu(v), grad); },
                               to_double(x)));
}

TEST_P(KernelGradientsTest, Embedding) {
  const std::vector<int32_t> ids = {3, 1, 3, 7, 0};
  const std::vector<float> grad = random_values(2, 5 * 4);
  const std::vector<float> table = random_values(1, 3 * 4);  // the shard holds ids 1, 2, 3
  const auto look_up = [&](const Values& v) {
    Values out(5 * 4);
    for (size_t r = 0; r < ids.size(); ++r) {
      for (size_t c = 0; c < 4 && ids[r] >= 1 && ids[r] <= 3; ++c) {
        out[r * 4 + c] = v[static_cast<size_t>(ids[r] - 1) * 4 + c];
      }
    }
    return out;
  };
  const Tensor ids_tensor = test::upload_ids(device(), ids);
  const Tensor table_tensor = put({3, 4}, table);
  const Tensor out = zeros({5, 4});
  const Tensor grad_out = put({5, 4}, grad);
  const Tensor grad_table = zeros({3, 4});
  kernels().embedding_forward(stream(), {.ids = ids_tensor.ptr(),
                                         .table = table_tensor.ptr(),
                                         .out = out.ptr(),
                                         .rows = 5,
                                         .cols = 4,
                                         .vocab_begin = 1,
                                         .vocab_count = 3});
  kernels().embedding_backward(stream(), {.ids = ids_tensor.ptr(),
                                          .grad_out = grad_out.ptr(),
                                          .grad_table = grad_table.ptr(),
                                          .rows = 5,
                                          .cols = 4,
                                          .vocab_begin = 1,
                                          .vocab_count = 3});
  expect_near(get(out), to_single(look_up(to_double(table))));
  expect_near(get(grad_table),
              numeric_gradient([&](const Values& v) { return weighted_sum(look_up(v), grad); },
                               to_double(table)));
}

// Sizes of the cross-entropy test: two shards of kCols columns.
constexpr int64_t kRows = 4;
constexpr int64_t kCols = 9;
constexpr int64_t kStride = 11;

double cross_entropy_of(const Values& logits, const std::vector<int32_t>& targets) {
  double loss = 0;
  for (size_t r = 0; r < kRows; ++r) {
    double sum = 0;
    for (size_t c = 0; c < 2 * kCols; ++c) {
      sum += std::exp(logits[r * 2 * kCols + c]);
    }
    if (targets[r] >= 0) {
      loss += std::log(sum) - logits[r * 2 * kCols + static_cast<size_t>(targets[r])];
    }
  }
  return loss;
}

// One shard's columns with its stride; what lies between is padding that must not count.
std::vector<float> shard_columns(const std::vector<float>& whole, size_t shard) {
  std::vector<float> values(kRows * kStride, 1e30F);
  for (size_t r = 0; r < kRows; ++r) {
    for (size_t c = 0; c < kCols; ++c) {
      values[r * kStride + c] = whole[r * 2 * kCols + shard * kCols + c];
    }
  }
  return values;
}

// Two shards of the vocabulary with the reductions between them done by hand.
TEST_P(KernelGradientsTest, CrossEntropyOverTwoShards) {
  const std::vector<int32_t> targets = {2, 13, -100, 9};
  const std::vector<float> x = random_values(1, kRows * 2 * kCols, 4);
  const auto loss_of = [&](const Values& v) { return cross_entropy_of(v, targets); };
  const Tensor target_ids = test::upload_ids(device(), targets);
  std::vector<Tensor> logits;
  std::vector<float> max(kRows, -1e30F);
  std::vector<float> stats(2 * kRows, 0.0F);
  for (const size_t shard : {0U, 1U}) {
    logits.push_back(put({kRows, kStride}, shard_columns(x, shard)));
    const Tensor local_max = zeros({kRows});
    kernels().row_max(stream(), {.logits = logits.back().ptr(),
                                 .max = local_max.ptr(),
                                 .rows = kRows,
                                 .cols = kCols,
                                 .stride = kStride});
    const std::vector<float> local = get(local_max);
    for (size_t r = 0; r < kRows; ++r) {
      max[r] = std::max(max[r], local[r]);
    }
  }
  const Tensor max_tensor = put({kRows}, max);
  for (const int64_t shard : {0, 1}) {
    const Tensor local_stats = zeros({2, kRows});
    kernels().sum_exp(stream(), {.logits = logits[static_cast<size_t>(shard)].ptr(),
                                 .max = max_tensor.ptr(),
                                 .stats = local_stats.ptr(),
                                 .targets = target_ids.ptr(),
                                 .rows = kRows,
                                 .cols = kCols,
                                 .stride = kStride,
                                 .vocab_begin = shard * kCols});
    const std::vector<float> local = get(local_stats);
    for (size_t i = 0; i < stats.size(); ++i) {
      stats[i] += local[i];
    }
  }
  const Tensor stats_tensor = put({2, kRows}, stats);
  const Tensor loss = put({1}, {0.5F});
  kernels().cross_entropy_loss(stream(), {.max = max_tensor.ptr(),
                                          .stats = stats_tensor.ptr(),
                                          .targets = target_ids.ptr(),
                                          .loss = loss.ptr(),
                                          .rows = kRows});
  expect_near(get(loss), {static_cast<float>(0.5 + loss_of(to_double(x)))});
  const std::vector<float> expected = numeric_gradient(loss_of, to_double(x));
  for (const size_t shard : {0U, 1U}) {
    kernels().cross_entropy_backward(stream(), {.logits = logits[shard].ptr(),
                                                .max = max_tensor.ptr(),
                                                .stats = stats_tensor.ptr(),
                                                .targets = target_ids.ptr(),
                                                .rows = kRows,
                                                .cols = kCols,
                                                .padded_cols = kCols + 1,
                                                .stride = kStride,
                                                .vocab_begin = static_cast<int64_t>(shard) * kCols,
                                                .scale = 1});
    std::vector<float> padded = shard_columns(expected, shard);
    for (size_t r = 0; r < kRows; ++r) {
      padded[r * kStride + kCols] = 0;
    }
    EXPECT_LE(test::max_difference(get(logits[shard]), padded), 1e-5);
  }
}

TEST_P(KernelGradientsTest, BiasGradientIsTheColumnSum) {
  const std::vector<float> grad = random_values(1, 7 * 5);
  const Tensor x = zeros({7, 5});
  const Tensor bias = put({5}, {1, 2, 3, 4, 5});
  const Tensor grad_x = put({7, 5}, grad);
  const Tensor grad_bias = zeros({5});
  kernels().add_bias(stream(),
                     {.x = x.ptr(), .bias = bias.ptr(), .rows = 7, .cols = 5, .stride = 5});
  kernels().column_sum(
      stream(), {.x = grad_x.ptr(), .out = grad_bias.ptr(), .rows = 7, .cols = 5, .stride = 5});
  EXPECT_EQ(get(x)[34], 5.0F);
  std::vector<float> expected(5, 0.0F);
  for (size_t i = 0; i < grad.size(); ++i) {
    expected[i % 5] += grad[i];
  }
  expect_near(get(grad_bias), expected);
}

// The first steps of torch.optim.AdamW on one weight, worked out by its formulas in double.
TEST_P(KernelGradientsTest, AdamwFollowsItsFormulas) {
  double p = 0.5;
  double m = 0;
  double v = 0;
  const Tensor param = put({1}, {0.5F});
  const Tensor exp_avg = zeros({1});
  const Tensor exp_avg_sq = zeros({1});
  for (int64_t step = 1; step <= 5; ++step) {
    const double g = 0.3 * static_cast<double>(step);
    const Tensor grad = put({1}, {static_cast<float>(2 * g)});
    kernels().adamw(stream(), {.param = param.ptr(),
                               .grad = grad.ptr(),
                               .exp_avg = exp_avg.ptr(),
                               .exp_avg_sq = exp_avg_sq.ptr(),
                               .low_precision = {},
                               .count = 1,
                               .lr = 0.01,
                               .beta1 = 0.9,
                               .beta2 = 0.999,
                               .eps = 1e-8,
                               .weight_decay = 0.1,
                               .grad_scale = 0.5F,
                               .step = step});
    p *= 1 - 0.01 * 0.1;
    m = 0.9 * m + 0.1 * g;
    v = 0.999 * v + 0.001 * g * g;
    const double correction1 = 1 - std::pow(0.9, static_cast<double>(step));
    const double correction2 = 1 - std::pow(0.999, static_cast<double>(step));
    p -= 0.01 * (m / correction1) / (std::sqrt(v / correction2) + 1e-8);
    EXPECT_NEAR(get(param)[0], p, 1e-6);
  }
}

INSTANTIATE_TEST_SUITE_P(All, KernelGradientsTest, testing::ValuesIn(test::all_devices()),
                         [](const auto& each) { return each.param; });

}  // namespace
}  // namespace plait
