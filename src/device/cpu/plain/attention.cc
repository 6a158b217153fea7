#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "device/cpu/float_types.h"
#include "device/cpu/plain/plain_kernels.h"

namespace plait::cpu::plain {
namespace {

template <typename T>
double dot(const T* a, const T* b, int64_t count) {
  double sum = 0;
  for (int64_t i = 0; i < count; ++i) {
    sum += static_cast<double>(to_float(a[i])) * to_float(b[i]);
  }
  return sum;
}

// Attention of one query row over keys [begin, row] of its sequence.
template <typename T>
void forward_row(const AttentionForwardArgs& args, int64_t head, int64_t row) {
  const int64_t begin = row / args.seq_len * args.seq_len;
  const int64_t kv_offset = head / (args.heads / args.kv_heads) * args.head_dim;
  const T* q = args.q.as<T>() + row * args.q_stride + head * args.head_dim;
  std::vector<double> scores;
  double max = -std::numeric_limits<double>::infinity();
  for (int64_t t = begin; t <= row; ++t) {
    const T* k = args.k.as<T>() + t * args.k_stride + kv_offset;
    scores.push_back(dot(q, k, args.head_dim) * args.scale);
    max = std::max(max, scores.back());
  }
  double sum = 0;
  for (double& score : scores) {
    score = std::exp(score - max);
    sum += score;
  }
  T* out = args.out.as<T>() + row * args.out_stride + head * args.head_dim;
  for (int64_t i = 0; i < args.head_dim; ++i) {
    double value = 0;
    for (int64_t t = begin; t <= row; ++t) {
      value += scores[static_cast<size_t>(t - begin)] *
               to_float(args.v.as<T>()[t * args.v_stride + kv_offset + i]);
    }
    out[i] = from_float<T>(static_cast<float>(value / sum));
  }
  args.lse.as<float>()[head * args.batch * args.seq_len + row] =
      static_cast<float>(max + std::log(sum));
}

// Sums of one kv head of one sequence, [seq_len, head_dim] each.
struct KvGrads {
  std::vector<double> k, v;
};

// P = exp(scale q k - lse); D = sum(grad_out out); dS = P (grad_out v - D) scale; dQ = dS K,
// dK = dS^T Q, dV = P^T grad_out (Dao et al. 2022, "FlashAttention", appendix B.2).
template <typename T>
void backward_row(const AttentionBackwardArgs& args, int64_t head, int64_t row, KvGrads& grads) {
  const int64_t dim = args.head_dim;
  const int64_t begin = row / args.seq_len * args.seq_len;
  const int64_t kv_offset = head / (args.heads / args.kv_heads) * dim;
  const T* q = args.q.as<T>() + row * args.q_stride + head * dim;
  const T* out = args.out.as<T>() + row * args.out_stride + head * dim;
  const T* grad_out = args.grad_out.as<T>() + row * args.grad_out_stride + head * dim;
  const double lse = args.lse.as<float>()[head * args.batch * args.seq_len + row];
  const double delta = dot(out, grad_out, dim);
  std::vector<double> grad_q(static_cast<size_t>(dim));
  for (int64_t t = begin; t <= row; ++t) {
    const T* k = args.k.as<T>() + t * args.k_stride + kv_offset;
    const T* v = args.v.as<T>() + t * args.v_stride + kv_offset;
    const double p = std::exp(dot(q, k, dim) * args.scale - lse);
    const double grad_score = p * (dot(grad_out, v, dim) - delta) * args.scale;
    for (int64_t i = 0; i < dim; ++i) {
      const auto at = static_cast<size_t>((t - begin) * dim + i);
      grad_q[static_cast<size_t>(i)] += grad_score * to_float(k[i]);
      grads.k[at] += grad_score * to_float(q[i]);
      grads.v[at] += p * to_float(grad_out[i]);
    }
  }
  T* result = args.grad_q.as<T>() + row * args.grad_q_stride + head * dim;
  for (int64_t i = 0; i < dim; ++i) {
    result[i] = from_float<T>(static_cast<float>(grad_q[static_cast<size_t>(i)]));
  }
}

template <typename T>
void backward(const AttentionBackwardArgs& args) {
  const int64_t group = args.heads / args.kv_heads;
  const int64_t dim = args.head_dim;
  for (int64_t b = 0; b < args.batch; ++b) {
    for (int64_t kv = 0; kv < args.kv_heads; ++kv) {
      KvGrads grads;
      grads.k.resize(static_cast<size_t>(args.seq_len * dim));
      grads.v.resize(static_cast<size_t>(args.seq_len * dim));
      for (int64_t head = kv * group; head < (kv + 1) * group; ++head) {
        for (int64_t t = 0; t < args.seq_len; ++t) {
          backward_row<T>(args, head, b * args.seq_len + t, grads);
        }
      }
      for (int64_t t = 0; t < args.seq_len; ++t) {
        const int64_t row = b * args.seq_len + t;
        T* grad_k = args.grad_k.as<T>() + row * args.grad_k_stride + kv * dim;
        T* grad_v = args.grad_v.as<T>() + row * args.grad_v_stride + kv * dim;
        for (int64_t i = 0; i < dim; ++i) {
          const auto at = static_cast<size_t>(t * dim + i);
          grad_k[i] = from_float<T>(static_cast<float>(grads.k[at]));
          grad_v[i] = from_float<T>(static_cast<float>(grads.v[at]));
        }
      }
    }
  }
}

}  // namespace

void attention_forward(const AttentionForwardArgs& args) {
  with_float_type(args.dtype, [&]<typename T>(T) {
    for (int64_t head = 0; head < args.heads; ++head) {
      for (int64_t row = 0; row < args.batch * args.seq_len; ++row) {
        forward_row<T>(args, head, row);
      }
    }
  });
}

void attention_backward(const AttentionBackwardArgs& args) {
  with_float_type(args.dtype, [&]<typename T>(T) { backward<T>(args); });
}

}  // namespace plait::cpu::plain
