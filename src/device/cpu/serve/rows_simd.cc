#include "device/cpu/serve/rows_simd.h"

#include "device/cpu/fast/split.h"
#include "device/cpu/fast/targets.h"
#include "device/cpu/float_types.h"
#include "device/cpu/serve/layout.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "device/cpu/serve/rows_simd.cc"
#include <hwy/foreach_target.h>

#include <hwy/highway.h>

#include "device/cpu/fast/simd_inl.h"

HWY_BEFORE_NAMESPACE();
namespace plait::cpu::fast::HWY_NAMESPACE {
namespace {

constexpr int64_t kMaxHeadDim = 256;

template <typename X, typename Y>
void norm_row(const NormRowsArgs& args, int64_t r) {
  X* x = args.x.as<X>() + r * args.x_stride;
  const X* delta = args.delta ? args.delta.as<X>() + r * args.delta_stride : nullptr;
  Y* y = args.y.as<Y>() + r * args.y_stride;
  const float* weight = args.weight.as<float>();
  FloatVec squares = splat(0);
  for_each_vector(args.cols, [&](int64_t i, auto io) HWY_ATTR {
    FloatVec v = io.get(x + i);
    if (delta != nullptr) {
      v = round_through<X>(hn::Add(v, io.get(delta + i)));
      io.put(v, x + i);
    }
    squares = hn::MulAdd(v, v, squares);
  });
  const float mean = sum_lanes(squares) / static_cast<float>(args.cols);
  const FloatVec rstd = splat(1 / std::sqrt(mean + args.eps));
  for_each_vector(args.cols, [&](int64_t i, auto io) HWY_ATTR {
    const FloatVec normalised = round_through<Y>(hn::Mul(io.get(x + i), rstd));
    io.put(hn::Mul(normalised, io.get(weight + i)), y + i);
  });
}

// One head of q or k in place: norm and rotation.
void prepare_head(const PrepareQkvArgs& args, int64_t position, DevicePtr norm, float* x) {
  const int64_t dim = args.kv.head_dim;
  if (norm) {
    const float* weight = norm.as<float>();
    FloatVec squares = splat(0);
    for_each_vector(dim, [&](int64_t i, auto io) HWY_ATTR {
      const FloatVec v = io.get(x + i);
      squares = hn::MulAdd(v, v, squares);
    });
    const float mean = sum_lanes(squares) / static_cast<float>(dim);
    const FloatVec rstd = splat(1 / std::sqrt(mean + args.norm_eps));
    for_each_vector(dim, [&](int64_t i, auto io) HWY_ATTR {
      io.put(hn::Mul(hn::Mul(io.get(x + i), rstd), io.get(weight + i)), x + i);
    });
  }
  const int64_t half = dim / 2;
  const float* cos = args.cos.as<float>() + position * half;
  const float* sin = args.sin.as<float>() + position * half;
  for_each_vector(half, [&](int64_t i, auto io) HWY_ATTR {
    const FloatVec first = io.get(x + i);
    const FloatVec second = io.get(x + half + i);
    const FloatVec c = io.get(cos + i);
    const FloatVec s = io.get(sin + i);
    io.put(hn::NegMulAdd(second, s, hn::Mul(first, c)), x + i);
    io.put(hn::MulAdd(first, s, hn::Mul(second, c)), x + half + i);
  });
}

template <typename From, typename To>
void convert(const From* from, int64_t count, To* to) {
  for_each_vector(count, [&](int64_t i, auto io) HWY_ATTR { io.put(io.get(from + i), to + i); });
}

// K of a head in the cache block of `slot`; V follows.
template <typename C>
C* keys_of(const PrepareQkvArgs& args, int64_t slot, int64_t head) {
  return (args.kv_cache + slot / kKvBlockTokens * serve::kv_block_bytes(args.kv) +
          head * serve::kv_head_bytes(args.kv))
      .as<C>();
}

template <typename C>
void store_key(const PrepareQkvArgs& args, int64_t slot, int64_t head, const C* key) {
  C* keys = keys_of<C>(args, slot, head);
  const int64_t token = slot % kKvBlockTokens;
  constexpr int64_t kTogether = sizeof(C) == 2 ? 2 : 1;  // depths side by side
  for (int64_t i = 0; i < args.kv.head_dim; i += kTogether) {
    std::memcpy(keys + serve::panel_index<C>(i, token), key + i, kTogether * sizeof(C));
  }
}

template <typename C>
void store_value(const PrepareQkvArgs& args, int64_t slot, int64_t head, const C* value) {
  C* values = keys_of<C>(args, slot, head) + serve::kv_part_elements(args.kv);
  const int64_t token = slot % kKvBlockTokens;
  for (int64_t i = 0; i < args.kv.head_dim; ++i) {
    values[i / serve::kPanel * serve::kPanel * kKvBlockTokens +
           serve::panel_index<C>(token, i % serve::kPanel)] = value[i];
  }
}

// As store_value for `slot`, which is even, and the next one, whose values lie in between.
void store_value_pair(const PrepareQkvArgs& args, int64_t slot, int64_t head, const BFloat16* first,
                      const BFloat16* second) {
  BFloat16* values = keys_of<BFloat16>(args, slot, head) + serve::kv_part_elements(args.kv);
  const int64_t token = slot % kKvBlockTokens;
  for (int64_t i = 0; i < args.kv.head_dim; i += serve::kPanel) {
    BFloat16 pairs[serve::kPanel][2];
    const int64_t count = std::min(serve::kPanel, args.kv.head_dim - i);
    for (int64_t lane = 0; lane < count; ++lane) {
      pairs[lane][0] = first[i + lane];
      pairs[lane][1] = second[i + lane];
    }
    std::memcpy(values + i * kKvBlockTokens + serve::panel_index<BFloat16>(token, 0), pairs,
                static_cast<size_t>(count) * sizeof(pairs[0]));
  }
}

// q in place, and K.
template <typename T, typename C>
void prepare_row(const PrepareQkvArgs& args, int64_t r) {
  const int64_t dim = args.kv.head_dim;
  const int64_t position = args.positions.as<int32_t>()[r];
  const int64_t slot = args.slots.as<int32_t>()[r];
  float head[kMaxHeadDim];
  C key[kMaxHeadDim];
  T* q = args.qkv.as<T>() + r * args.qkv_stride;
  for (int64_t h = 0; h < args.heads; ++h) {
    convert(q + h * dim, dim, head);
    prepare_head(args, position, args.q_norm, head);
    convert(head, dim, q + h * dim);
  }
  if (slot < 0) {
    return;
  }
  const T* k = q + args.heads * dim;
  for (int64_t h = 0; h < args.kv.kv_heads; ++h) {
    convert(k + h * dim, dim, head);
    prepare_head(args, position, args.k_norm, head);
    convert(head, dim, key);
    store_key(args, slot, h, key);
  }
}

// V of the rows [begin, end).
template <typename T, typename C>
void store_values(const PrepareQkvArgs& args, int64_t begin, int64_t end) {
  const int64_t dim = args.kv.head_dim;
  const auto* slots = args.slots.as<int32_t>();
  C value[2][kMaxHeadDim];
  for (int64_t r = begin; r < end;) {
    const int64_t slot = slots[r];
    const bool pair =
        sizeof(C) == 2 && slot >= 0 && slot % 2 == 0 && r + 1 < end && slots[r + 1] == slot + 1;
    const T* v = args.qkv.as<T>() + r * args.qkv_stride + (args.heads + args.kv.kv_heads) * dim;
    for (int64_t h = 0; slot >= 0 && h < args.kv.kv_heads; ++h) {
      convert(v + h * dim, dim, value[0]);
      if constexpr (sizeof(C) == 2) {
        if (pair) {
          convert(v + args.qkv_stride + h * dim, dim, value[1]);
          store_value_pair(args, slot, h, value[0], value[1]);
          continue;
        }
      }
      store_value(args, slot, h, value[0]);
    }
    r += pair ? 2 : 1;
  }
}

template <typename T>
void argmax_row(const RowArgmaxArgs& args, int64_t r) {
  const T* row = args.logits.as<T>() + r * args.stride;
  constexpr float kLowest = -std::numeric_limits<float>::infinity();
  FloatVec most = splat(kLowest);
  const int64_t whole = args.cols / lanes() * lanes();
  for (int64_t i = 0; i < whole; i += lanes()) {
    const FloatVec v = load(row + i);
    most = hn::IfThenElse(hn::Gt(v, most), v, most);
  }
  float best = max_lanes(most);
  for (int64_t i = whole; i < args.cols; ++i) {
    best = to_float(row[i]) > best ? to_float(row[i]) : best;
  }
  int64_t id = 0;
  if (best > kLowest) {
    while (id < whole && hn::AllFalse(kF, hn::Eq(load(row + id), splat(best)))) {
      id += lanes();
    }
    while (to_float(row[id]) != best) {
      ++id;
    }
  }
  args.ids.as<int32_t>()[r] = static_cast<int32_t>(id);
  if (args.values) {
    args.values.as<float>()[r] = best;
  }
}

}  // namespace

void norm_rows_simd(const NormRowsArgs& args, ThreadPool& pool) {
  with_float_type(args.x_dtype, [&]<typename X>(X) {
    with_float_type(args.y_dtype, [&]<typename Y>(Y) {
      pool.parallel_for(args.rows, grain_rows(args.cols), [&](int64_t begin, int64_t end) {
        for (int64_t r = begin; r < end; ++r) {
          norm_row<X, Y>(args, r);
        }
      });
    });
  });
}

void prepare_qkv_simd(const PrepareQkvArgs& args, ThreadPool& pool) {
  const auto run = [&]<typename T, typename C>(T, C) {
    const int64_t width = (args.heads + 2 * args.kv.kv_heads) * args.kv.head_dim;
    pool.parallel_for(args.rows, grain_rows(width), [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        prepare_row<T, C>(args, r);
      }
      store_values<T, C>(args, begin, end);
    });
  };
  with_float_type(args.dtype, [&]<typename T>(T t) {
    if (args.kv.dtype == DType::kF32) {
      run(t, float{});
    } else {
      run(t, BFloat16{});
    }
  });
}

void row_argmax_simd(const RowArgmaxArgs& args, ThreadPool& pool) {
  with_float_type(args.dtype, [&]<typename T>(T) {
    pool.parallel_for(args.rows, grain_rows(args.cols), [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        argmax_row<T>(args, r);
      }
    });
  });
}

}  // namespace plait::cpu::fast::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plait::cpu::fast {

HWY_EXPORT(norm_rows_simd);
HWY_EXPORT(prepare_qkv_simd);
HWY_EXPORT(row_argmax_simd);

void norm_rows(const NormRowsArgs& args, ThreadPool& pool) {
  HWY_DYNAMIC_DISPATCH(norm_rows_simd)(args, pool);
}

void prepare_qkv(const PrepareQkvArgs& args, ThreadPool& pool) {
  HWY_DYNAMIC_DISPATCH(prepare_qkv_simd)(args, pool);
}

void row_argmax(const RowArgmaxArgs& args, ThreadPool& pool) {
  HWY_DYNAMIC_DISPATCH(row_argmax_simd)(args, pool);
}

}  // namespace plait::cpu::fast
#endif  // HWY_ONCE
