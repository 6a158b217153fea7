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
  Float16* scales;  // of the lanes
  int16_t* zeros;
};

Int8GroupView int8_group(int8_t* panel, int64_t depth) {
  auto* scales = reinterpret_cast<Float16*>(panel + depth / kInt8Group * kInt8GroupBytes);
  return {scales, reinterpret_cast<int16_t*>(scales + kPanel)};
}

// How the elements of a group become integers: w = scale * (q - zero / kInt8ZeroParts).
struct Int8Levels {
  Float16 scale;
  int16_t zero = 0;

  // The smallest element becomes -128, the largest 127; less if the group is far from zero.
  Int8Levels(float low, float high) {
    const float size = std::max(std::abs(low), std::abs(high));
    scale = from_float<Float16>(std::min(std::max(high - low, size) / 255, 65504.0F));
    step_ = to_float(scale);
    if (step_ > 0) {
      const float lowest = std::clamp(low / step_, -256.0F, 256.0F);
      zero = static_cast<int16_t>(std::nearbyint((-128 - lowest) * kInt8ZeroParts));
      offset_ = static_cast<float>(zero) / kInt8ZeroParts;
    }
  }

  int8_t quantise(float x) const {
    if (step_ <= 0) {
      return 0;
    }
    // Adding 1.5 * 2^23 rounds to an integer.
    constexpr float kShift = 12582912.0F;
    return static_cast<int8_t>(std::clamp(x / step_ + offset_ + kShift - kShift, -128.0F, 127.0F));
  }

 private:
  float step_ = 0, offset_ = 0;  // scale and zero as f32
};

template <typename T>
void pack_group(int8_t* panel, int64_t lane, const T* row, int64_t depth, int64_t count) {
  float values[kInt8Group] = {};
  for (int64_t i = 0; i < count; ++i) {
    values[i] = to_float(row[depth + i]);
  }
  const auto [low, high] = std::minmax_element(values, values + count);
  const Int8Levels levels(*low, *high);
  const Int8GroupView group = int8_group(panel, depth);
  group.scales[lane] = levels.scale;
  group.zeros[lane] = levels.zero;
  for (int64_t i = 0; i < kInt8Group; ++i) {
    panel[panel_index<int8_t>(depth + i, lane)] = i < count ? levels.quantise(values[i]) : int8_t{};
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
        group.scales[row % kPanel] = Float16{};
        group.zeros[row % kPanel] = 0;
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
      const Int8GroupView group = int8_group(panel, d);
      int32_t sum = 0;
      for (int64_t i = d; i < std::min(d + kInt8Group, args.weight.k); ++i) {
        const int32_t w = panel[panel_index<W>(i, lane)] * kInt8ZeroParts - group.zeros[lane];
        sum += a.integers[static_cast<size_t>(i)] * w;
      }
      total = std::fma(static_cast<float>(sum), to_float(group.scales[lane]), total);
    }
    return total * (a.scale / kInt8ZeroParts);
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

// An element of a packed weight.
template <typename W>
float weight_value(W* panel, int64_t depth, int64_t lane) {
  const W w = panel[panel_index<W>(depth, lane)];
  if constexpr (sizeof(W) == 1) {
    const Int8GroupView group = int8_group(panel, depth);
    return static_cast<float>(w * kInt8ZeroParts - group.zeros[lane]) *
           to_float(group.scales[lane]) / kInt8ZeroParts;
  } else {
    return to_float(w);
  }
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
          out[d] = from_float<C>(weight_value(panel, d, id % kPanel));
        }
      }
    });
  };
  with_weight_type(args.weight.format, [&]<typename W>(W w) {
    with_float_type(args.out_dtype, [&]<typename C>(C c) { gather(w, c); });
  });
}

}  // namespace plait::cpu::serve::plain
