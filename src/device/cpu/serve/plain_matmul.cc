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

// The group of a panel that holds `depth`.
struct Int8GroupView {
  int8_t* elements;
  Float16* scales;  // of the lanes
  Float16* zeros;
};

Int8GroupView int8_group(int8_t* panel, int64_t depth) {
  int8_t* group = panel + depth / kInt8Group * kInt8GroupBytes;
  auto* scales = reinterpret_cast<Float16*>(group + kInt8GroupElements);
  return {group, scales, scales + kPanel};
}

float clamp_to_f16(float x) {
  return std::clamp(x, -65504.0F, 65504.0F);
}

// One group of a row: the smallest element becomes -128, the largest 127, but for the rounding of
// scale and zero.
template <typename T>
void pack_group(int8_t* panel, int64_t lane, const T* row, int64_t depth, int64_t count) {
  float low = to_float(row[depth]);
  float high = low;
  for (int64_t i = 1; i < count; ++i) {
    low = std::min(low, to_float(row[depth + i]));
    high = std::max(high, to_float(row[depth + i]));
  }
  const Int8GroupView group = int8_group(panel, depth);
  const auto scale = from_float<Float16>(clamp_to_f16((high - low) / 255));
  const float step = to_float(scale);
  const auto zero = from_float<Float16>(clamp_to_f16(low + 128 * step));
  const float inverse = step > 0 ? 1 / step : 0;
  group.scales[lane] = scale;
  group.zeros[lane] = zero;
  for (int64_t i = 0; i < kInt8Group; ++i) {
    // Adding 1.5 * 2^23 rounds to an integer.
    constexpr float kShift = 12582912.0F;
    const float scaled =
        i < count ? (to_float(row[depth + i]) - to_float(zero)) * inverse + kShift - kShift : 0;
    panel[panel_index<int8_t>(depth + i, lane)] =
        static_cast<int8_t>(std::clamp(scaled, -128.0F, 127.0F));
  }
}

// `lanes` rows from `row`, all of one panel.
template <typename T>
void pack_rows(const PackWeightArgs& args, int64_t row, int64_t lanes, const T* source,
               int8_t /*type*/) {
  const PackedWeight& weight = args.weight;
  auto* panel = panel_of<int8_t>(weight, args.packed, row);
  for (int64_t d = 0; d < weight.k; d += kInt8Group) {
    for (int64_t i = 0; i < lanes; ++i) {
      pack_group(panel, row % kPanel + i, source + i * args.source_stride, d,
                 std::min(kInt8Group, weight.k - d));
    }
  }
}

template <typename W, typename T>
W packed_element(T x) {
  if constexpr (std::is_same_v<T, W>) {
    return x;
  } else {
    return from_float<W>(to_float(x));
  }
}

template <typename T, typename W>
void pack_rows(const PackWeightArgs& args, int64_t row, int64_t lanes, const T* source,
               W /*type*/) {
  const PackedWeight& weight = args.weight;
  constexpr int64_t kDepths = sizeof(W) == 4 ? 1 : 2;
  W* panel = panel_of<W>(weight, args.packed, row);
  for (int64_t d = 0; d < packed_depth(weight); d += kDepths) {
    for (int64_t lane = 0; lane < lanes; ++lane) {
      W* out = panel + panel_index<W>(d, row % kPanel + lane);
      for (int64_t i = 0; i < kDepths; ++i) {
        out[i] =
            d + i < weight.k ? packed_element<W>(source[lane * args.source_stride + d + i]) : W{};
      }
    }
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
      if constexpr (sizeof(W) == 1) {
        const Int8GroupView group = int8_group(panel, d);
        group.scales[row % kPanel] = group.zeros[row % kPanel] = Float16{};
      }
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
    const auto limit = static_cast<float>(kActivationLimit);
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
  W* panel = panel_of<W>(args.weight, args.packed, col);
  const int64_t lane = col % kPanel;
  if constexpr (sizeof(W) == 1) {
    float total = 0;
    for (int64_t d = 0; d < args.weight.k; d += kInt8Group) {
      int32_t sum = 0;
      int32_t sum_a = 0;
      for (int64_t i = d; i < std::min(d + kInt8Group, args.weight.k); ++i) {
        const int32_t x = a.integers[static_cast<size_t>(i)];
        sum += x * panel[panel_index<W>(i, lane)];
        sum_a += x;
      }
      const Int8GroupView group = int8_group(panel, d);
      total = std::fma(static_cast<float>(sum), to_float(group.scales[lane]), total);
      total = std::fma(static_cast<float>(sum_a), to_float(group.zeros[lane]), total);
    }
    return total * a.scale;
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
          const int64_t lanes = std::min(kPanel - row % kPanel, end - r);
          pack_rows<T>(args, row, lanes, source, W{});
          r += lanes;
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
        W* panel = panel_of<W>(args.weight, args.packed, id);
        for (int64_t d = 0; d < args.weight.k; ++d) {
          const W w = panel[panel_index<W>(d, id % kPanel)];
          if constexpr (sizeof(W) == 1) {
            const Int8GroupView group = int8_group(panel, d);
            const int64_t lane = id % kPanel;
            out[d] = from_float<C>(static_cast<float>(w) * to_float(group.scales[lane]) +
                                   to_float(group.zeros[lane]));
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
