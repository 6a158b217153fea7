#include <cmath>
#include <limits>
#include <vector>

#include "device/cpu/float_types.h"
#include "device/cpu/serve/layout.h"
#include "device/cpu/serve/plain_serve.h"

namespace plait::cpu::serve::plain {
namespace {

float rstd_of(const float* x, int64_t count, float eps) {
  double sum = 0;
  for (int64_t i = 0; i < count; ++i) {
    sum += static_cast<double>(x[i]) * x[i];
  }
  return static_cast<float>(1 / std::sqrt(sum / static_cast<double>(count) + eps));
}

template <typename X, typename Y>
void norm_row(const NormRowsArgs& args, int64_t r) {
  X* x = args.x.as<X>() + r * args.x_stride;
  Y* y = args.y.as<Y>() + r * args.y_stride;
  const float* weight = args.weight.as<float>();
  std::vector<float> values(static_cast<size_t>(args.cols));
  for (int64_t c = 0; c < args.cols; ++c) {
    if (args.delta) {
      x[c] =
          from_float<X>(to_float(x[c]) + to_float(args.delta.as<X>()[r * args.delta_stride + c]));
    }
    values[static_cast<size_t>(c)] = to_float(x[c]);
  }
  const float rstd = rstd_of(values.data(), args.cols, args.eps);
  for (int64_t c = 0; c < args.cols; ++c) {
    const float normalised = to_float(from_float<Y>(values[static_cast<size_t>(c)] * rstd));
    y[c] = from_float<Y>(normalised * weight[c]);
  }
}

// One head of q or k: norm and rotation, in f32.
void prepare_head(const PrepareQkvArgs& args, int64_t position, DevicePtr norm, float* x) {
  const int64_t dim = args.kv.head_dim;
  if (norm) {
    const float rstd = rstd_of(x, dim, args.norm_eps);
    for (int64_t i = 0; i < dim; ++i) {
      x[i] = x[i] * rstd * norm.as<float>()[i];
    }
  }
  const int64_t half = dim / 2;
  const float* cos = args.cos.as<float>() + position * half;
  const float* sin = args.sin.as<float>() + position * half;
  for (int64_t i = 0; i < half; ++i) {
    const float first = x[i];
    const float second = x[i + half];
    x[i] = first * cos[i] - second * sin[i];
    x[i + half] = second * cos[i] + first * sin[i];
  }
}

// Where the parts of one head of one cache block are.
template <typename C>
struct HeadOfBlock {
  C* keys;
  C* values;
};

template <typename C>
HeadOfBlock<C> head_of_block(const PrepareQkvArgs& args, int64_t block, int64_t head) {
  C* keys = (args.kv_cache + block * serve::kv_block_bytes(args.kv) + head * kv_head_bytes(args.kv))
                .as<C>();
  return {keys, keys + kv_part_elements(args.kv)};
}

template <typename T, typename C>
void store_head(const PrepareQkvArgs& args, int64_t slot, int64_t head, const float* key,
                const T* value) {
  const HeadOfBlock<C> at = head_of_block<C>(args, slot / kKvBlockTokens, head);
  const int64_t token = slot % kKvBlockTokens;
  for (int64_t i = 0; i < args.kv.head_dim; ++i) {
    at.keys[panel_index<C>(i, token)] = from_float<C>(key[i]);
    at.values[i / kPanel * kPanel * kKvBlockTokens + panel_index<C>(token, i % kPanel)] =
        from_float<C>(to_float(value[i]));
  }
}

template <typename T, typename C>
void prepare_row(const PrepareQkvArgs& args, int64_t r) {
  const int64_t dim = args.kv.head_dim;
  const int64_t position = args.positions.as<int32_t>()[r];
  const int64_t slot = args.slots.as<int32_t>()[r];
  std::vector<float> head(static_cast<size_t>(dim));
  T* q = args.qkv.as<T>() + r * args.qkv_stride;
  for (int64_t h = 0; h < args.heads + args.kv.kv_heads; ++h) {
    const bool is_query = h < args.heads;
    for (int64_t i = 0; i < dim; ++i) {
      head[static_cast<size_t>(i)] = to_float(q[h * dim + i]);
    }
    if (is_query) {
      prepare_head(args, position, args.q_norm, head.data());
      for (int64_t i = 0; i < dim; ++i) {
        q[h * dim + i] = from_float<T>(head[static_cast<size_t>(i)]);
      }
    } else if (slot >= 0) {
      prepare_head(args, position, args.k_norm, head.data());
      store_head<T, C>(args, slot, h - args.heads, head.data(), q + (h + args.kv.kv_heads) * dim);
    }
  }
}

}  // namespace

void norm_rows(const NormRowsArgs& args, ThreadPool& pool) {
  with_float_type(args.x_dtype, [&]<typename X>(X) {
    with_float_type(args.y_dtype, [&]<typename Y>(Y) {
      pool.parallel_for(args.rows, 16, [&](int64_t begin, int64_t end) {
        for (int64_t r = begin; r < end; ++r) {
          norm_row<X, Y>(args, r);
        }
      });
    });
  });
}

void prepare_qkv(const PrepareQkvArgs& args, ThreadPool& pool) {
  with_float_type(args.dtype, [&]<typename T>(T) {
    with_float_type(args.kv.dtype, [&]<typename C>(C) {
      pool.parallel_for(args.rows, 4, [&](int64_t begin, int64_t end) {
        for (int64_t r = begin; r < end; ++r) {
          prepare_row<T, C>(args, r);
        }
      });
    });
  });
}

void row_argmax(const RowArgmaxArgs& args, ThreadPool& pool) {
  with_float_type(args.dtype, [&]<typename T>(T) {
    pool.parallel_for(args.rows, 1, [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        const T* row = args.logits.as<T>() + r * args.stride;
        float best = -std::numeric_limits<float>::infinity();
        int64_t id = 0;
        for (int64_t c = 0; c < args.cols; ++c) {
          if (to_float(row[c]) > best) {
            best = to_float(row[c]);
            id = c;
          }
        }
        args.ids.as<int32_t>()[r] = static_cast<int32_t>(id);
        if (args.values) {
          args.values.as<float>()[r] = best;
        }
      }
    });
  });
}

}  // namespace plait::cpu::serve::plain
