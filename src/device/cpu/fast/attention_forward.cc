// Attention by tiles of 64 queries x 64 keys with a running maximum and sum per query (Dao et al.
// 2022, "FlashAttention"). Scores are kept transposed, [key, query]: a query is then a vector lane,
// so softmax needs no reduction across lanes, and the products that follow read the tile along its
// rows or columns as they need.
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
#define HWY_TARGET_INCLUDE "device/cpu/fast/attention_forward.cc"
#include <hwy/foreach_target.h>

#include <hwy/highway.h>

#include "device/cpu/fast/attention_tile_inl.h"

HWY_BEFORE_NAMESPACE();
namespace plait::cpu::fast::HWY_NAMESPACE {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// One (sequence, head): where its parts of the scratch are. p = padded head size.
struct Head {
  int64_t dim, padded_dim, seq_len;
  float* keys;                // [padded seq_len, p]
  float* values;              // [padded seq_len, p]
  float* queries;             // [kTile, p]
  float* queries_transposed;  // [p, kTile]
  float* scores;              // [key, query]
  float* out;                 // [kTile, p]
  float* max;                 // [kTile] of the scores so far
  float* sum;                 // [kTile] of exp(score - max) so far
};

Head layout(const AttentionForwardArgs& args) {
  Head head{};
  head.dim = args.head_dim;
  head.padded_dim = round_up(args.head_dim, panel_cols());
  head.seq_len = args.seq_len;
  const int64_t sequence = round_up(args.seq_len, kTile) * head.padded_dim;
  const int64_t tile = kTile * head.padded_dim;
  float* next = thread_scratch().floats(2 * sequence + 3 * tile + kTile * kTile + 2 * kTile);
  const auto take = [&](int64_t count) {
    float* begin = next;
    next += count;
    return begin;
  };
  head.keys = take(sequence);
  head.values = take(sequence);
  head.queries = take(tile);
  head.queries_transposed = take(tile);
  head.out = take(tile);
  head.scores = take(kTile * kTile);
  head.max = take(kTile);
  head.sum = take(kTile);
  return head;
}

// On the diagonal tile, the scores of keys after their query: minus infinity where softmax will
// look (within the vector that holds the diagonal), zero beyond.
void mask_diagonal(float* scores) {
  for (int64_t key = 0; key < kTile; ++key) {
    float* row = scores + key * kTile;
    const int64_t vector = key / lanes() * lanes();
    std::fill(row, row + vector, 0.0F);
    std::fill(row + vector, row + key, -kInfinity);
  }
}

// Turns scores into probabilities relative to the new maximum, and rescales what was summed before.
// On the diagonal, keys beyond the vector that holds the query are zero already and skipped.
void softmax_tile(const Head& head, bool diagonal) {
  HWY_ALIGN float corrections[kTile];
  for (int64_t query = 0; query < kTile; query += lanes()) {
    float* column = head.scores + query;
    const int64_t keys = diagonal ? std::min(kTile, query + lanes()) : kTile;
    const FloatVec old_max = load(head.max + query);
    FloatVec even = old_max;
    FloatVec odd = old_max;
    for (int64_t key = 0; key < keys; key += 2) {
      even = hn::Max(even, load(column + key * kTile));
      odd = hn::Max(odd, load(column + std::min(key + 1, keys - 1) * kTile));
    }
    const FloatVec max = hn::Max(even, odd);
    FloatVec sum = splat(0);
    for (int64_t key = 0; key < keys; ++key) {
      const FloatVec p = exp(hn::Sub(load(column + key * kTile), max));
      store(p, column + key * kTile);
      sum = hn::Add(sum, p);
    }
    const FloatVec correction = exp(hn::Sub(old_max, max));
    store(max, head.max + query);
    store(hn::MulAdd(load(head.sum + query), correction, sum), head.sum + query);
    store(correction, corrections + query);
  }
  for (int64_t query = 0; query < kTile; ++query) {
    if (corrections[query] == 1.0F) {
      continue;
    }
    const FloatVec correction = splat(corrections[query]);
    float* out = head.out + query * head.padded_dim;
    for (int64_t i = 0; i < head.padded_dim; i += lanes()) {
      store(hn::Mul(load(out + i), correction), out + i);
    }
  }
}

// One tile of queries over all keys up to it.
void attend(const Head& head, int64_t query_begin) {
  const int64_t p = head.padded_dim;
  std::fill_n(head.out, kTile * p, 0.0F);
  std::fill_n(head.max, kTile, -kInfinity);
  std::fill_n(head.sum, kTile, 0.0F);
  for (int64_t key_begin = 0; key_begin <= query_begin; key_begin += kTile) {
    const bool diagonal = key_begin == query_begin;
    product<false>({.a = {head.keys + key_begin * p, p, 1},
                    .b = head.queries_transposed,
                    .c = head.scores,
                    .b_stride = kTile,
                    .c_stride = kTile,
                    .rows = kTile,
                    .cols = kTile,
                    .depth = p,
                    .triangle = diagonal ? Triangle::kColsFrom : Triangle::kNone});
    if (diagonal) {
      mask_diagonal(head.scores);
    }
    softmax_tile(head, diagonal);
    product<true>({.a = {head.scores, 1, kTile},
                   .b = head.values + key_begin * p,
                   .c = head.out,
                   .b_stride = p,
                   .c_stride = p,
                   .rows = kTile,
                   .cols = p,
                   .depth = kTile,
                   .triangle = diagonal ? Triangle::kDepthTo : Triangle::kNone});
  }
}

template <typename T>
void forward_head(const AttentionForwardArgs& args, int64_t batch, int64_t h) {
  const Head head = layout(args);
  const int64_t first_row = batch * args.seq_len;
  const int64_t kv_offset = h / (args.heads / args.kv_heads) * args.head_dim;
  const TileShape all{args.seq_len, args.head_dim, round_up(args.seq_len, kTile), head.padded_dim};
  pack_rows(args.k.as<T>() + first_row * args.k_stride + kv_offset, args.k_stride, all, 1,
            head.keys);
  pack_rows(args.v.as<T>() + first_row * args.v_stride + kv_offset, args.v_stride, all, 1,
            head.values);
  float* lse = args.lse.as<float>() + h * args.batch * args.seq_len + first_row;
  for (int64_t begin = 0; begin < args.seq_len; begin += kTile) {
    const int64_t rows = std::min(kTile, args.seq_len - begin);
    const int64_t row = first_row + begin;
    pack_rows(args.q.as<T>() + row * args.q_stride + h * args.head_dim, args.q_stride,
              {rows, args.head_dim, kTile, head.padded_dim}, args.scale, head.queries);
    transpose_tile(head.queries, head.padded_dim, head.queries_transposed);
    attend(head, begin);
    for (int64_t r = 0; r < rows; ++r) {
      T* out = args.out.as<T>() + (row + r) * args.out_stride + h * args.head_dim;
      const float* sums = head.out + r * head.padded_dim;
      const FloatVec inverse = splat(1 / head.sum[r]);
      for_each_vector(args.head_dim, [&](int64_t i, auto io) HWY_ATTR {
        io.put(hn::Mul(io.get(sums + i), inverse), out + i);
      });
      lse[begin + r] = head.max[r] + std::log(head.sum[r]);
    }
  }
}

}  // namespace

void attention_forward_simd(const AttentionForwardArgs& args, ThreadPool& pool) {
  with_float_type(args.dtype, [&]<typename T>(T) {
    parallel_tasks(pool, args.batch * args.heads, [&](int64_t task) {
      forward_head<T>(args, task / args.heads, task % args.heads);
    });
  });
}

}  // namespace plait::cpu::fast::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plait::cpu::fast {

HWY_EXPORT(attention_forward_simd);

void attention_forward(const AttentionForwardArgs& args, ThreadPool& pool) {
  HWY_DYNAMIC_DISPATCH(attention_forward_simd)(args, pool);
}

}  // namespace plait::cpu::fast
#endif  // HWY_ONCE
