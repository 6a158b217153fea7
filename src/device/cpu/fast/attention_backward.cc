// Gradients of attention by tiles of 64 queries x 64 keys (Dao et al. 2022, "FlashAttention",
// appendix B.2). As in the forward pass the tiles are [key, query]. With S = scale q k and the
// saved lse: P = exp(S - lse), D = sum(grad_out out), dS = P (grad_out v - D); dV = P^T grad_out,
// dK = dS^T (scale q), dQ = scale dS k.
#include "base/round_up.h"
#include "device/cpu/fast/fast_kernels.h"
#include "device/cpu/fast/scratch.h"
#include "device/cpu/fast/targets.h"
#include "device/cpu/fast/tasks.h"
#include "device/cpu/float_types.h"

#include <algorithm>
#include <cmath>
#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "device/cpu/fast/attention_backward.cc"
#include <hwy/foreach_target.h>

#include <hwy/highway.h>

#include "device/cpu/fast/attention_tile_inl.h"

HWY_BEFORE_NAMESPACE();
namespace plait::cpu::fast::HWY_NAMESPACE {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// One (sequence, kv head): where its parts of the scratch are. p = padded head size.
struct Group {
  int64_t dim, padded_dim;
  TileShape sequence;
  float *keys, *values, *grad_keys, *grad_values;   // [padded seq_len, p]
  float *queries, *grad_out, *grad_queries;         // [kTile, p]
  float *queries_transposed, *grad_out_transposed;  // [p, kTile]
  float *probabilities, *grad_scores;               // [key, query]
  float *lse, *delta;                               // [kTile]
};

Group layout(const AttentionBackwardArgs& args) {
  Group group{};
  group.dim = args.head_dim;
  group.padded_dim = round_up(args.head_dim, panel_cols());
  group.sequence = {args.seq_len, args.head_dim, round_up(args.seq_len, kTile), group.padded_dim};
  const int64_t sequence = group.sequence.padded_rows * group.padded_dim;
  const int64_t tile = kTile * group.padded_dim;
  float* next = thread_scratch().floats(4 * sequence + 5 * tile + 2 * kTile * kTile + 2 * kTile);
  for (float** part : {&group.keys, &group.values, &group.grad_keys, &group.grad_values}) {
    *part = next;
    next += sequence;
  }
  for (float** part : {&group.queries, &group.grad_out, &group.grad_queries,
                       &group.queries_transposed, &group.grad_out_transposed}) {
    *part = next;
    next += tile;
  }
  for (float** part : {&group.probabilities, &group.grad_scores}) {
    *part = next;
    next += kTile * kTile;
  }
  group.lse = next;
  group.delta = next + kTile;
  return group;
}

// P and dS from S and grad_out v, in place. Keys after their query become 0.
void probabilities_and_grad_scores(const Group& group, bool diagonal) {
  for (int64_t key = 0; key < kTile; ++key) {
    float* p_row = group.probabilities + key * kTile;
    float* grad_row = group.grad_scores + key * kTile;
    const int64_t begin = diagonal ? key / lanes() * lanes() : 0;
    for (int64_t query = begin; query < kTile; query += lanes()) {
      const FloatVec p = exp(hn::Sub(load(p_row + query), load(group.lse + query)));
      const FloatVec grad = hn::Sub(load(grad_row + query), load(group.delta + query));
      store(p, p_row + query);
      store(hn::Mul(p, grad), grad_row + query);
    }
    if (diagonal) {
      std::fill(p_row, p_row + key, 0.0F);
      std::fill(grad_row, grad_row + key, 0.0F);
    }
  }
}

void scores_of(const Group& group, const float* rows, const float* transposed, float* scores,
               bool diagonal) {
  const int64_t p = group.padded_dim;
  product<false>({.a = {rows, p, 1},
                  .b = transposed,
                  .c = scores,
                  .b_stride = kTile,
                  .c_stride = kTile,
                  .rows = kTile,
                  .cols = kTile,
                  .depth = p,
                  .triangle = diagonal ? Triangle::kColsFrom : Triangle::kNone});
}

// grads[kTile, p] += tile b, with the tile read as `a` says.
void add_product(const Group& group, Operand a, const float* b, float* grads, Triangle triangle) {
  const int64_t p = group.padded_dim;
  product<true>({.a = a,
                 .b = b,
                 .c = grads,
                 .b_stride = p,
                 .c_stride = p,
                 .rows = kTile,
                 .cols = p,
                 .depth = kTile,
                 .triangle = triangle});
}

// One tile of queries against all keys up to it.
void backward_tile(const Group& group, int64_t query_begin) {
  const int64_t p = group.padded_dim;
  std::fill_n(group.grad_queries, kTile * p, 0.0F);
  for (int64_t key_begin = 0; key_begin <= query_begin; key_begin += kTile) {
    const bool diagonal = key_begin == query_begin;
    const int64_t at = key_begin * p;
    scores_of(group, group.keys + at, group.queries_transposed, group.probabilities, diagonal);
    scores_of(group, group.values + at, group.grad_out_transposed, group.grad_scores, diagonal);
    probabilities_and_grad_scores(group, diagonal);
    const Triangle from = diagonal ? Triangle::kDepthFrom : Triangle::kNone;
    const Triangle to = diagonal ? Triangle::kDepthTo : Triangle::kNone;
    add_product(group, {group.probabilities, kTile, 1}, group.grad_out, group.grad_values + at,
                from);
    add_product(group, {group.grad_scores, kTile, 1}, group.queries, group.grad_keys + at, from);
    add_product(group, {group.grad_scores, 1, kTile}, group.keys + at, group.grad_queries, to);
  }
}

template <typename T>
float dot(const T* a, const T* b, int64_t count) {
  FloatVec sum = splat(0);
  for_each_vector(count, [&](int64_t i, auto io)
                             HWY_ATTR { sum = hn::MulAdd(io.get(a + i), io.get(b + i), sum); });
  return sum_lanes(sum);
}

template <typename T>
void store_rows(const float* packed, const TileShape& shape, float factor, T* out, int64_t stride) {
  for (int64_t r = 0; r < shape.rows; ++r) {
    const float* row = packed + r * shape.padded_dim;
    for_each_vector(shape.dim, [&](int64_t i, auto io) HWY_ATTR {
      io.put(hn::Mul(io.get(row + i), splat(factor)), out + r * stride + i);
    });
  }
}

// Query head h of one sequence, all its tiles.
template <typename T>
void backward_head(const AttentionBackwardArgs& args, const Group& group, int64_t first_row,
                   int64_t h) {
  const int64_t offset = h * args.head_dim;
  const float* lse = args.lse.as<float>() + h * args.batch * args.seq_len;
  for (int64_t begin = 0; begin < args.seq_len; begin += kTile) {
    const int64_t row = first_row + begin;
    const TileShape shape{std::min(kTile, args.seq_len - begin), args.head_dim, kTile,
                          group.padded_dim};
    const T* grad_out = args.grad_out.as<T>() + row * args.grad_out_stride + offset;
    const T* out = args.out.as<T>() + row * args.out_stride + offset;
    pack_rows(args.q.as<T>() + row * args.q_stride + offset, args.q_stride, shape, args.scale,
              group.queries);
    pack_rows(grad_out, args.grad_out_stride, shape, 1, group.grad_out);
    transpose_tile(group.queries, group.padded_dim, group.queries_transposed);
    transpose_tile(group.grad_out, group.padded_dim, group.grad_out_transposed);
    for (int64_t r = 0; r < kTile; ++r) {
      const bool inside = r < shape.rows;
      group.lse[r] = inside ? lse[row + r] : kInfinity;  // no probability for padding
      group.delta[r] = inside ? dot(grad_out + r * args.grad_out_stride, out + r * args.out_stride,
                                    args.head_dim)
                              : 0;
    }
    backward_tile(group, begin);
    store_rows(group.grad_queries, shape, args.scale,
               args.grad_q.as<T>() + row * args.grad_q_stride + offset, args.grad_q_stride);
  }
}

// One thread takes all query heads of a kv head, so that their gradients add up in order.
template <typename T>
void backward_group(const AttentionBackwardArgs& args, int64_t batch, int64_t kv_head) {
  const Group group = layout(args);
  const int64_t first_row = batch * args.seq_len;
  const int64_t offset = kv_head * args.head_dim;
  const int64_t count = group.sequence.padded_rows * group.padded_dim;
  pack_rows(args.k.as<T>() + first_row * args.k_stride + offset, args.k_stride, group.sequence, 1,
            group.keys);
  pack_rows(args.v.as<T>() + first_row * args.v_stride + offset, args.v_stride, group.sequence, 1,
            group.values);
  std::fill_n(group.grad_keys, count, 0.0F);
  std::fill_n(group.grad_values, count, 0.0F);
  const int64_t heads = args.heads / args.kv_heads;
  for (int64_t h = kv_head * heads; h < (kv_head + 1) * heads; ++h) {
    backward_head<T>(args, group, first_row, h);
  }
  store_rows(group.grad_keys, group.sequence, 1,
             args.grad_k.as<T>() + first_row * args.grad_k_stride + offset, args.grad_k_stride);
  store_rows(group.grad_values, group.sequence, 1,
             args.grad_v.as<T>() + first_row * args.grad_v_stride + offset, args.grad_v_stride);
}

}  // namespace

void attention_backward_simd(const AttentionBackwardArgs& args, ThreadPool& pool) {
  with_float_type(args.dtype, [&]<typename T>(T) {
    parallel_tasks(pool, args.batch * args.kv_heads, [&](int64_t task) {
      backward_group<T>(args, task / args.kv_heads, task % args.kv_heads);
    });
  });
}

}  // namespace plait::cpu::fast::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plait::cpu::fast {

HWY_EXPORT(attention_backward_simd);

void attention_backward(const AttentionBackwardArgs& args, ThreadPool& pool) {
  HWY_DYNAMIC_DISPATCH(attention_backward_simd)(args, pool);
}

}  // namespace plait::cpu::fast
#endif  // HWY_ONCE
