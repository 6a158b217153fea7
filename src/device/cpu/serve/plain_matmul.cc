#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>
#include <vector>

#include "device/cpu/float_types.h"
#include "device/cpu/serve/layout.h"
#include "device/cpu/serve/plain_serve.h"

namespace plait::cpu::serve::plain {
namespace {

// Calls f with a value of the type that holds the weight's elements.
template <typename F>
void with_weight_type(WeightFormat format, F f) {
  switch (format) {
    case WeightFormat::kF32:
      return f(float{});
    case WeightFormat::kBF16:
      return f(BFloat16{});
    case WeightFormat::kInt8:
      return f(int8_t{});
  }
}

template <typename W>
W* panel_of(const PackedWeight& weight, DevicePtr packed, int64_t row) {
  return (packed + row / kPanel * panel_bytes(weight)).as<W>();
}

float* scales_of(const PackedWeight& weight, DevicePtr packed) {
  return (packed + scales_offset(weight)).as<float>();
}

// The scale that makes the largest element 127. Rows of nothing but tiny values become zeros.
template <typename T>
float int8_scale(const T* row, int64_t k) {
  float largest = 0;
  for (int64_t i = 0; i < k; ++i) {
    largest = std::max(largest, std::abs(to_float(row[i])));
  }
  return largest < 1e-30F ? 0 : largest / 127;
}

// An element as it is kept; `inverse` is 1 / scale for int8.
template <typename W, typename T>
W packed_element(T x, float inverse) {
  if constexpr (sizeof(W) == 1) {
    // Adding 1.5 * 2^23 rounds to an integer.
    constexpr float kShift = 12582912.0F;
    const float rounded = to_float(x) * inverse + kShift - kShift;
    return static_cast<W>(std::clamp(rounded, -127.0F, 127.0F));
  } else if constexpr (std::is_same_v<T, W>) {
    return x;
  } else {
    return from_float<W>(to_float(x));
  }
}

template <typename T, typename W>
float inverse_scale(const PackWeightArgs& args, int64_t row, const T* source) {
  if constexpr (sizeof(W) > 1) {
    return 1;
  } else {
    const float scale = int8_scale(source, args.weight.k);
    scales_of(args.weight, args.packed)[row] = scale;
    return scale > 0 ? 1 / scale : 0;
  }
}

template <typename T, typename W>
void pack_row(const PackWeightArgs& args, int64_t row, const T* source) {
  const PackedWeight& weight = args.weight;
  W* panel = panel_of<W>(weight, args.packed, row);
  const int64_t lane = row % kPanel;
  const float inverse = inverse_scale<T, W>(args, row, source);
  for (int64_t d = 0; d < weight.k; ++d) {
    panel[panel_index<W>(d, lane)] = packed_element<W>(source[d], inverse);
  }
  for (int64_t d = weight.k; d < packed_depth(weight); ++d) {
    panel[panel_index<W>(d, lane)] = W{};
  }
}

// kPanel rows at once, which write the panel in order.
template <typename T, typename W>
void pack_panel(const PackWeightArgs& args, int64_t row, const T* source) {
  const PackedWeight& weight = args.weight;
  constexpr int64_t kDepths = sizeof(W) == 4 ? 1 : 2;
  W* panel = panel_of<W>(weight, args.packed, row);
  float inverse[kPanel];
  for (int64_t lane = 0; lane < kPanel; ++lane) {
    inverse[lane] = inverse_scale<T, W>(args, row + lane, source + lane * args.source_stride);
  }
  int64_t d = 0;
  for (; d + kDepths <= weight.k; d += kDepths) {
    for (int64_t lane = 0; lane < kPanel; ++lane) {
      for (int64_t i = 0; i < kDepths; ++i) {
        *panel++ = packed_element<W>(source[lane * args.source_stride + d + i], inverse[lane]);
      }
    }
  }
  for (int64_t lane = 0; d < weight.k && lane < kPanel; ++lane) {
    *panel++ = packed_element<W>(source[lane * args.source_stride + d], inverse[lane]);
    *panel++ = W{};
  }
}

// The lanes beyond row n of the last panel.
template <typename W>
void fill_padding(const PackWeightArgs& args) {
  const PackedWeight& weight = args.weight;
  for (int64_t row = weight.n; row < round_up(weight.n, kPanel); ++row) {
    W* panel = panel_of<W>(weight, args.packed, row);
    for (int64_t d = 0; d < packed_depth(weight); ++d) {
      panel[panel_index<W>(d, row % kPanel)] = W{};
    }
    if constexpr (sizeof(W) == 1) {
      scales_of(weight, args.packed)[row] = 0;
    }
  }
}

// A row of `a` as f32; against int8 weights, as integers and the factor that undoes it.
struct Activations {
  std::vector<float> values;
  std::vector<int32_t> integers;
  float scale = 1;
};

template <typename A>
Activations activations_of(const MatmulPackedArgs& args, int64_t row) {
  Activations result;
  const A* a = args.a.as<A>() + row * args.a_stride;
  float largest = 0;
  bool finite = true;
  for (int64_t i = 0; i < args.weight.k; ++i) {
    result.values.push_back(to_float(a[i]));
    finite = finite && std::isfinite(result.values.back());
    largest = std::max(largest, std::abs(result.values.back()));
  }
  if (args.weight.format == WeightFormat::kInt8) {
    const auto limit = static_cast<float>(activation_limit(args.weight.k));
    result.scale = finite ? largest / limit : std::numeric_limits<float>::quiet_NaN();
    const float inverse = finite && largest >= 1e-30F ? limit / largest : 0;
    for (const float x : result.values) {
      // Adding 1.5 * 2^23 rounds to an integer.
      constexpr float kShift = 12582912.0F;
      const float scaled = finite ? std::fma(x, inverse, kShift) - kShift : 0;
      result.integers.push_back(static_cast<int32_t>(std::clamp(scaled, -limit, limit)));
    }
  }
  return result;
}

template <typename W>
float product(const MatmulPackedArgs& args, const Activations& a, int64_t col) {
  const W* panel = panel_of<W>(args.weight, args.packed, col);
  const int64_t lane = col % kPanel;
  if constexpr (sizeof(W) == 1) {
    int32_t sum = 0;
    for (int64_t d = 0; d < args.weight.k; ++d) {
      sum += a.integers[static_cast<size_t>(d)] * panel[panel_index<W>(d, lane)];
    }
    return static_cast<float>(sum) * (a.scale * scales_of(args.weight, args.packed)[col]);
  } else {
    float sum = 0;
    for (int64_t d = 0; d < args.weight.k; ++d) {
      sum =
          std::fma(a.values[static_cast<size_t>(d)], to_float(panel[panel_index<W>(d, lane)]), sum);
    }
    return sum;
  }
}

template <typename C, typename W>
void multiply_row(const MatmulPackedArgs& args, const Activations& a, int64_t row) {
  C* c = args.c.as<C>() + row * args.c_stride;
  for (int64_t col = 0; col < args.weight.n; ++col) {
    float value = product<W>(args, a, col);
    if (args.bias) {
      value += args.bias.as<float>()[col];
    }
    if (args.accumulate) {
      value += to_float(c[col]);
    }
    c[col] = from_float<C>(value);
  }
}

}  // namespace

void pack_weight(const PackWeightArgs& args, ThreadPool& pool) {
  with_float_type(args.source_dtype, [&]<typename T>(T) {
    with_weight_type(args.weight.format, [&]<typename W>(W) {
      pool.parallel_for(args.rows, kPanel, [&](int64_t begin, int64_t end) {
        for (int64_t r = begin; r < end;) {
          const int64_t row = args.row_begin + r;
          const T* source = args.source.as<T>() + r * args.source_stride;
          if (row % kPanel == 0 && r + kPanel <= end) {
            pack_panel<T, W>(args, row, source);
            r += kPanel;
          } else {
            pack_row<T, W>(args, row, source);
            ++r;
          }
        }
      });
      if (args.row_begin + args.rows == args.weight.n) {
        fill_padding<W>(args);
      }
    });
  });
}

void matmul_packed(const MatmulPackedArgs& args, ThreadPool& pool) {
  pool.parallel_for(args.m, 1, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      Activations a;
      with_float_type(args.a_dtype, [&]<typename A>(A) { a = activations_of<A>(args, row); });
      with_float_type(args.c_dtype, [&]<typename C>(C) {
        with_weight_type(args.weight.format,
                         [&]<typename W>(W) { multiply_row<C, W>(args, a, row); });
      });
    }
  });
}

void embedding_packed(const EmbeddingPackedArgs& args, ThreadPool& pool) {
  const auto gather = [&]<typename W, typename C>(W, C) {
    pool.parallel_for(args.rows, 8, [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        const int64_t id = args.ids.as<int32_t>()[r] - args.vocab_begin;
        C* out = args.out.as<C>() + r * args.weight.k;
        if (id < 0 || id >= args.weight.n) {
          std::fill_n(out, args.weight.k, C{});
          continue;
        }
        const W* panel = panel_of<W>(args.weight, args.packed, id);
        for (int64_t d = 0; d < args.weight.k; ++d) {
          const W w = panel[panel_index<W>(d, id % kPanel)];
          if constexpr (sizeof(W) == 1) {
            out[d] = from_float<C>(static_cast<float>(w) * scales_of(args.weight, args.packed)[id]);
          } else {
            out[d] = from_float<C>(to_float(w));
          }
        }
      }
    });
  };
  with_weight_type(args.weight.format, [&]<typename W>(W w) {
    with_float_type(args.out_dtype, [&]<typename C>(C c) { gather(w, c); });
  });
}

}  // namespace plait::cpu::serve::plain
