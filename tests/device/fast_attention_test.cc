// Fast attention against its plain version.
#include "device/fast_kernels.h"

namespace plait::test {
namespace {

class FastAttentionTest : public FastKernelTest {};

struct AttentionShape {
  int64_t batch, seq_len, heads, kv_heads, head_dim;
};
// Within one tile, on its edge, several tiles with a rest; grouped and single kv heads; head sizes
// that are no multiple of a vector.
constexpr AttentionShape kAttentionShapes[] = {
    {1, 1, 1, 1, 4},    {2, 5, 2, 1, 8},    {1, 64, 2, 2, 16}, {1, 65, 4, 2, 20},
    {1, 150, 2, 1, 64}, {1, 129, 3, 3, 40}, {1, 70, 1, 1, 128}};

TEST_P(FastAttentionTest, Forward) {
  for (const AttentionShape& s : kAttentionShapes) {
    const int64_t rows = s.batch * s.seq_len;
    const int64_t q_stride = (s.heads + 2 * s.kv_heads) * s.head_dim;  // q, k, v side by side
    const int64_t out_stride = s.heads * s.head_dim + 3;
    const Memory memory = {random_array(1, rows * q_stride, dtype(), 2),
                           constant_array(rows * out_stride, dtype(), 9),
                           constant_array(s.heads * rows, DType::kF32, 9)};
    const auto args = [&](Memory& a) {
      const int64_t bytes = dtype_size(dtype()) * s.head_dim;
      return AttentionForwardArgs{.q = a[0].ptr(),
                                  .k = a[0].ptr() + s.heads * bytes,
                                  .v = a[0].ptr() + (s.heads + s.kv_heads) * bytes,
                                  .out = a[1].ptr(),
                                  .lse = a[2].ptr(),
                                  .batch = s.batch,
                                  .seq_len = s.seq_len,
                                  .heads = s.heads,
                                  .kv_heads = s.kv_heads,
                                  .head_dim = s.head_dim,
                                  .q_stride = q_stride,
                                  .k_stride = q_stride,
                                  .v_stride = q_stride,
                                  .out_stride = out_stride,
                                  .scale = 0.3F,
                                  .dtype = dtype()};
    };
    compare<AttentionForwardArgs>(cpu::plain::attention_forward, cpu::fast::attention_forward,
                                  memory, args, 3e-6);
  }
}

// A maximum that is not the row's own would make every exp underflow here.
TEST_P(FastAttentionTest, ScoresFarBelowZero) {
  constexpr int64_t kRows = 70;
  constexpr int64_t kDim = 8;
  const Memory memory = {
      constant_array(kRows * kDim, dtype(), 8), constant_array(kRows * kDim, dtype(), -8),
      random_array(1, kRows * kDim, dtype()), constant_array(kRows * kDim, dtype(), 0),
      constant_array(kRows, DType::kF32, 0)};
  const auto args = [&](Memory& a) {
    return AttentionForwardArgs{.q = a[0].ptr(),
                                .k = a[1].ptr(),
                                .v = a[2].ptr(),
                                .out = a[3].ptr(),
                                .lse = a[4].ptr(),
                                .batch = 1,
                                .seq_len = kRows,
                                .heads = 1,
                                .kv_heads = 1,
                                .head_dim = kDim,
                                .q_stride = kDim,
                                .k_stride = kDim,
                                .v_stride = kDim,
                                .out_stride = kDim,
                                .scale = 1,
                                .dtype = dtype()};
  };
  compare<AttentionForwardArgs>(cpu::plain::attention_forward, cpu::fast::attention_forward, memory,
                                args, 3e-6);
}

TEST_P(FastAttentionTest, Backward) {
  for (const AttentionShape& s : kAttentionShapes) {
    const int64_t rows = s.batch * s.seq_len;
    const int64_t q_stride = s.heads * s.head_dim + 1;
    const int64_t kv_stride = s.kv_heads * s.head_dim + 2;
    Memory memory = {random_array(1, rows * q_stride, dtype(), 2),
                     random_array(2, rows * kv_stride, dtype()),
                     random_array(3, rows * kv_stride, dtype()),
                     constant_array(rows * q_stride, dtype(), 0),
                     constant_array(s.heads * rows, DType::kF32, 0),
                     random_array(4, rows * q_stride, dtype()),
                     constant_array(rows * q_stride, dtype(), 9),
                     constant_array(rows * kv_stride, dtype(), 9),
                     constant_array(rows * kv_stride, dtype(), 9)};
    cpu::plain::attention_forward({.q = memory[0].ptr(),
                                   .k = memory[1].ptr(),
                                   .v = memory[2].ptr(),
                                   .out = memory[3].ptr(),
                                   .lse = memory[4].ptr(),
                                   .batch = s.batch,
                                   .seq_len = s.seq_len,
                                   .heads = s.heads,
                                   .kv_heads = s.kv_heads,
                                   .head_dim = s.head_dim,
                                   .q_stride = q_stride,
                                   .k_stride = kv_stride,
                                   .v_stride = kv_stride,
                                   .out_stride = q_stride,
                                   .scale = 0.3F,
                                   .dtype = dtype()});
    const auto args = [&](Memory& a) {
      return AttentionBackwardArgs{.q = a[0].ptr(),
                                   .k = a[1].ptr(),
                                   .v = a[2].ptr(),
                                   .out = a[3].ptr(),
                                   .lse = a[4].ptr(),
                                   .grad_out = a[5].ptr(),
                                   .grad_q = a[6].ptr(),
                                   .grad_k = a[7].ptr(),
                                   .grad_v = a[8].ptr(),
                                   .scratch = {},
                                   .batch = s.batch,
                                   .seq_len = s.seq_len,
                                   .heads = s.heads,
                                   .kv_heads = s.kv_heads,
                                   .head_dim = s.head_dim,
                                   .q_stride = q_stride,
                                   .k_stride = kv_stride,
                                   .v_stride = kv_stride,
                                   .out_stride = q_stride,
                                   .grad_out_stride = q_stride,
                                   .grad_q_stride = q_stride,
                                   .grad_k_stride = kv_stride,
                                   .grad_v_stride = kv_stride,
                                   .scale = 0.3F,
                                   .dtype = dtype()};
    };
    compare<AttentionBackwardArgs>(cpu::plain::attention_backward, cpu::fast::attention_backward,
                                   memory, args, 1e-5);
  }
}

INSTANTIATE_TEST_SUITE_P(Each, FastAttentionTest, each_isa_and_dtype(), isa_and_dtype);

}  // namespace
}  // namespace plait::test
