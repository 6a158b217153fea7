// The table of operators that a backend fills (those of serving: serve_kernels.h). Every call
// queues work on `stream` and returns.
//
// Conventions: matrices are row-major; a stride is the distance between rows in elements; sizes are
// elements. "f" means f32, bf16 or f16 according to the dtype field; statistics and accumulators
// are f32. Kernels own nothing and allocate nothing: scratch is passed in where a kernel needs
// some. Each args struct lists its pointers in each_pointer(), so that a backend that translates
// addresses (guard) does so in one place. Null pointers mean "absent" where a field says optional.
// Results depend on the arguments and the device's thread count only, never on timing.
#pragma once

#include <cstdint>

#include "base/dtype.h"
#include "device/device_ptr.h"
#include "device/serve_kernels.h"

namespace plait {

class Stream;

// c[m,n] = op(a)[m,k] op(b)[k,n] (+ bias[n]) (+ c). a is stored [m,k], or [k,m] if transpose_a;
// b is stored [k,n], or [n,k] if transpose_b (a Linear weight). Products accumulate in f32.
struct MatmulArgs {
  DevicePtr a, b, c;
  DevicePtr bias;  // optional; dtype of a and b
  int64_t m = 0, n = 0, k = 0;
  int64_t a_stride = 0, b_stride = 0, c_stride = 0;
  bool transpose_a = false, transpose_b = false;
  bool accumulate = false;           // add to c
  DType input_dtype = DType::kF32;   // of a, b, bias
  DType output_dtype = DType::kF32;  // of c: the same as the input, or f32
  template <typename F>
  void each_pointer(F f) {
    f(a), f(b), f(c), f(bias);
  }
};

// y = x * rstd * weight, rstd = 1/sqrt(mean(x^2) + eps), over rows of `cols`. A row may hold
// several groups side by side that are normalised one by one with the same weight (QK-norm over
// heads): group g of row r starts at x + r * x_stride + g * cols. HF semantics: x * rstd is rounded
// to the compute dtype before the product with the weight.
struct RmsNormForwardArgs {
  DevicePtr x, weight, y;
  DevicePtr rstd;  // f32 [rows, groups]
  int64_t rows = 0, groups = 1, cols = 0;
  int64_t x_stride = 0, y_stride = 0;
  float eps = 0;
  DType dtype = DType::kF32;
  template <typename F>
  void each_pointer(F f) {
    f(x), f(weight), f(y), f(rstd);
  }
};

// grad_x (+)= dL/dx; grad_weight (f32) += dL/dweight. rstd as forward left it. grad_x may be
// grad_y.
struct RmsNormBackwardArgs {
  DevicePtr x, weight, rstd, grad_y, grad_x;
  DevicePtr grad_weight;  // f32 [cols]
  int64_t rows = 0, groups = 1, cols = 0;
  int64_t x_stride = 0, grad_y_stride = 0, grad_x_stride = 0;
  bool accumulate = false;  // add to grad_x
  DType dtype = DType::kF32;
  template <typename F>
  void each_pointer(F f) {
    f(x), f(weight), f(rstd), f(grad_y), f(grad_x), f(grad_weight);
  }
};

// Rotary embedding in HF's half-split convention, in place: head h of row r starts at
// x + r * x_stride + h * head_dim; element i < head_dim/2 pairs with i + head_dim/2.
// cos and sin are f32 [positions, head_dim/2]; row r has position r % seq_len.
struct RopeArgs {
  DevicePtr x, cos, sin;
  int64_t rows = 0, seq_len = 0, heads = 0, head_dim = 0;
  int64_t x_stride = 0;
  bool inverse = false;  // the transpose rotation, for backward
  DType dtype = DType::kF32;
  template <typename F>
  void each_pointer(F f) {
    f(x), f(cos), f(sin);
  }
};

// Causal attention with grouped query heads, without materialising the scores. Rows are
// batch * seq_len tokens; head h of a row starts at base + row * stride + h * head_dim. Query head
// h reads kv head h / (heads / kv_heads).
struct AttentionForwardArgs {
  DevicePtr q, k, v, out;
  DevicePtr lse;  // f32 [heads, batch * seq_len]: log of the sum of exp of the scaled scores
  int64_t batch = 0, seq_len = 0, heads = 0, kv_heads = 0, head_dim = 0;
  int64_t q_stride = 0, k_stride = 0, v_stride = 0, out_stride = 0;
  float scale = 0;  // usually 1/sqrt(head_dim)
  DType dtype = DType::kF32;
  template <typename F>
  void each_pointer(F f) {
    f(q), f(k), f(v), f(out), f(lse);
  }
};

// Gradients of the above; overwrites grad_q, grad_k, grad_v.
struct AttentionBackwardArgs {
  DevicePtr q, k, v, out, lse, grad_out;
  DevicePtr grad_q, grad_k, grad_v;
  DevicePtr scratch;  // f32 [heads, batch * seq_len]
  int64_t batch = 0, seq_len = 0, heads = 0, kv_heads = 0, head_dim = 0;
  int64_t q_stride = 0, k_stride = 0, v_stride = 0, out_stride = 0, grad_out_stride = 0;
  int64_t grad_q_stride = 0, grad_k_stride = 0, grad_v_stride = 0;
  float scale = 0;
  DType dtype = DType::kF32;
  template <typename F>
  void each_pointer(F f) {
    f(q), f(k), f(v), f(out), f(lse), f(grad_out), f(grad_q), f(grad_k), f(grad_v), f(scratch);
  }
};

// out[r, i] = silu(gate[r, i]) * up[r, i]; gate_up is [rows, 2 * cols], gate first.
struct SwigluForwardArgs {
  DevicePtr gate_up, out;
  int64_t rows = 0, cols = 0;
  DType dtype = DType::kF32;
  template <typename F>
  void each_pointer(F f) {
    f(gate_up), f(out);
  }
};

// grad_gate_up may be gate_up.
struct SwigluBackwardArgs {
  DevicePtr gate_up, grad_out, grad_gate_up;
  int64_t rows = 0, cols = 0;
  DType dtype = DType::kF32;
  template <typename F>
  void each_pointer(F f) {
    f(gate_up), f(grad_out), f(grad_gate_up);
  }
};

// out[r] = table[ids[r] - vocab_begin], or zeros when the id is not in this shard.
struct EmbeddingForwardArgs {
  DevicePtr ids;  // i32 [rows]
  DevicePtr table, out;
  int64_t rows = 0, cols = 0;
  int64_t vocab_begin = 0, vocab_count = 0;  // the shard holds ids [begin, begin + count)
  DType dtype = DType::kF32;
  template <typename F>
  void each_pointer(F f) {
    f(ids), f(table), f(out);
  }
};

// grad_table (f32) += grad_out, row by row in token order.
struct EmbeddingBackwardArgs {
  DevicePtr ids, grad_out, grad_table;
  int64_t rows = 0, cols = 0;
  int64_t vocab_begin = 0, vocab_count = 0;
  DType dtype = DType::kF32;  // of grad_out
  template <typename F>
  void each_pointer(F f) {
    f(ids), f(grad_out), f(grad_table);
  }
};

// Cross-entropy over one shard of the vocabulary takes three calls with a reduction over the tp
// group between them: row_max -> all_reduce(max) -> sum_exp -> all_reduce(sum) -> loss / backward.
// Columns at or beyond `cols` of a row (padding) do not exist for the loss.
struct RowMaxArgs {
  DevicePtr logits;  // f [rows, stride]
  DevicePtr max;     // f32 [rows]
  int64_t rows = 0, cols = 0, stride = 0;
  DType dtype = DType::kF32;
  template <typename F>
  void each_pointer(F f) {
    f(logits), f(max);
  }
};

// stats is f32 [2, rows]: row 0 the sum of exp(logit - max), row 1 the logit of the target if this
// shard holds it, else 0. One all_reduce(sum) of the whole block completes both.
struct SumExpArgs {
  DevicePtr logits, max, stats;
  DevicePtr targets;  // i32 [rows]; negative: masked
  int64_t rows = 0, cols = 0, stride = 0;
  int64_t vocab_begin = 0;
  DType dtype = DType::kF32;
  template <typename F>
  void each_pointer(F f) {
    f(logits), f(max), f(stats), f(targets);
  }
};

// loss (f32, one element) += sum over unmasked rows of log(sum) + max - target_logit, rows in
// order.
struct CrossEntropyLossArgs {
  DevicePtr max, stats, targets, loss;
  int64_t rows = 0;
  template <typename F>
  void each_pointer(F f) {
    f(max), f(stats), f(targets), f(loss);
  }
};

// In place: logits := (softmax - onehot(target)) * scale; masked rows and padding columns (from
// cols to padded_cols) become 0.
struct CrossEntropyBackwardArgs {
  DevicePtr logits, max, stats, targets;
  int64_t rows = 0, cols = 0, padded_cols = 0, stride = 0;
  int64_t vocab_begin = 0;
  float scale = 0;
  DType dtype = DType::kF32;
  template <typename F>
  void each_pointer(F f) {
    f(logits), f(max), f(stats), f(targets);
  }
};

// y[r, i] = x[r, i] + other[r, i] (all f, contiguous); y may be x or other.
struct AddArgs {
  DevicePtr x, other, y;
  int64_t count = 0;
  DType dtype = DType::kF32;
  template <typename F>
  void each_pointer(F f) {
    f(x), f(other), f(y);
  }
};

// x[r, i] += bias[i].
struct AddBiasArgs {
  DevicePtr x, bias;
  int64_t rows = 0, cols = 0, stride = 0;
  DType dtype = DType::kF32;
  template <typename F>
  void each_pointer(F f) {
    f(x), f(bias);
  }
};

// out[i] (f32) += sum over rows of x[r, i].
struct ColumnSumArgs {
  DevicePtr x, out;
  int64_t rows = 0, cols = 0, stride = 0;
  DType dtype = DType::kF32;
  template <typename F>
  void each_pointer(F f) {
    f(x), f(out);
  }
};

// Element by element conversion between float types; not in place.
struct CastArgs {
  DevicePtr source, destination;
  int64_t count = 0;
  DType source_dtype = DType::kF32, destination_dtype = DType::kF32;
  template <typename F>
  void each_pointer(F f) {
    f(source), f(destination);
  }
};

// x *= factor, f32.
struct ScaleArgs {
  DevicePtr x;
  int64_t count = 0;
  float factor = 1;
  template <typename F>
  void each_pointer(F f) {
    f(x);
  }
};

// out (f32, one element) += weight * sum of squares of x (f32); the sum runs in double over blocks
// of fixed size, so it does not depend on the thread count. NaN and Inf propagate.
struct SumSquaresArgs {
  DevicePtr x, out;
  int64_t count = 0;
  float weight = 1;
  template <typename F>
  void each_pointer(F f) {
    f(x), f(out);
  }
};

// One AdamW update in torch's order: p *= 1 - lr * weight_decay; m = b1 m + (1-b1) g;
// v = b2 v + (1-b2) g^2; p -= lr * (m / c1) / (sqrt(v / c2) + eps), g = grad * grad_scale,
// c1 = 1 - b1^step, c2 = 1 - b2^step (Loshchilov & Hutter 2019, as torch.optim.AdamW).
struct AdamwArgs {
  DevicePtr param;                      // f32 master
  DevicePtr grad, exp_avg, exp_avg_sq;  // f32
  DevicePtr low_precision;              // optional: also store the new value here, rounded
  int64_t count = 0;
  double lr = 0, beta1 = 0, beta2 = 0, eps = 0, weight_decay = 0;
  float grad_scale = 1;
  int64_t step = 1;
  DType low_precision_dtype = DType::kBF16;
  template <typename F>
  void each_pointer(F f) {
    f(param), f(grad), f(exp_avg), f(exp_avg_sq), f(low_precision);
  }
};

class Kernels {
 public:
  virtual ~Kernels() = default;
  virtual void matmul(Stream& stream, const MatmulArgs& args) = 0;
  virtual void rms_norm_forward(Stream& stream, const RmsNormForwardArgs& args) = 0;
  virtual void rms_norm_backward(Stream& stream, const RmsNormBackwardArgs& args) = 0;
  virtual void rope(Stream& stream, const RopeArgs& args) = 0;
  virtual void attention_forward(Stream& stream, const AttentionForwardArgs& args) = 0;
  virtual void attention_backward(Stream& stream, const AttentionBackwardArgs& args) = 0;
  virtual void swiglu_forward(Stream& stream, const SwigluForwardArgs& args) = 0;
  virtual void swiglu_backward(Stream& stream, const SwigluBackwardArgs& args) = 0;
  virtual void embedding_forward(Stream& stream, const EmbeddingForwardArgs& args) = 0;
  virtual void embedding_backward(Stream& stream, const EmbeddingBackwardArgs& args) = 0;
  virtual void row_max(Stream& stream, const RowMaxArgs& args) = 0;
  virtual void sum_exp(Stream& stream, const SumExpArgs& args) = 0;
  virtual void cross_entropy_loss(Stream& stream, const CrossEntropyLossArgs& args) = 0;
  virtual void cross_entropy_backward(Stream& stream, const CrossEntropyBackwardArgs& args) = 0;
  virtual void add(Stream& stream, const AddArgs& args) = 0;
  virtual void add_bias(Stream& stream, const AddBiasArgs& args) = 0;
  virtual void column_sum(Stream& stream, const ColumnSumArgs& args) = 0;
  virtual void cast(Stream& stream, const CastArgs& args) = 0;
  virtual void scale(Stream& stream, const ScaleArgs& args) = 0;
  virtual void sum_squares(Stream& stream, const SumSquaresArgs& args) = 0;
  virtual void adamw(Stream& stream, const AdamwArgs& args) = 0;

  // Serving: see serve_kernels.h.
  virtual int64_t packed_weight_bytes(const PackedWeight& weight) const = 0;
  virtual int64_t kv_block_bytes(const KvLayout& layout) const = 0;
  virtual void pack_weight(Stream& stream, const PackWeightArgs& args) = 0;
  virtual void matmul_packed(Stream& stream, const MatmulPackedArgs& args) = 0;
  virtual void embedding_packed(Stream& stream, const EmbeddingPackedArgs& args) = 0;
  virtual void norm_rows(Stream& stream, const NormRowsArgs& args) = 0;
  virtual void prepare_qkv(Stream& stream, const PrepareQkvArgs& args) = 0;
  virtual void paged_attention(Stream& stream, const PagedAttentionArgs& args) = 0;
  virtual void row_argmax(Stream& stream, const RowArgmaxArgs& args) = 0;
};

}  // namespace plait
