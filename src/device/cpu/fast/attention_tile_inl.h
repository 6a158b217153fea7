// Small dense products and layout changes on f32 tiles that stay in the caches; compiled once per
// instruction set, so the include guard toggles.
#if defined(PLAIT_DEVICE_CPU_FAST_ATTENTION_TILE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PLAIT_DEVICE_CPU_FAST_ATTENTION_TILE_INL_H_
#undef PLAIT_DEVICE_CPU_FAST_ATTENTION_TILE_INL_H_
#else
#define PLAIT_DEVICE_CPU_FAST_ATTENTION_TILE_INL_H_
#endif

#include "device/cpu/fast/simd_inl.h"

HWY_BEFORE_NAMESPACE();
namespace plait::cpu::fast::HWY_NAMESPACE {

// Tiles are kTile queries by kTile keys.
constexpr int64_t kTile = 64;

// An operand: element (row, k) is at data[row * row_step + k * k_step].
struct Operand {
  const float* data;
  int64_t row_step, k_step;
};

// Register tile: kMaxRows rows by two vectors of accumulators, within the set's registers.
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_SCALAR
constexpr int kMaxRows = 6;
#else
constexpr int kMaxRows = 12;
#endif

HWY_INLINE int64_t panel_cols() {
  return 2 * lanes();
}

// c[kRows, panel] (+)= a[kRows, depth] b[depth, panel].
template <int kRows, bool kAccumulate>
HWY_INLINE void product_panel(Operand a, const float* HWY_RESTRICT b, int64_t b_stride,
                              int64_t depth, float* HWY_RESTRICT c, int64_t c_stride) {
  const int64_t n = lanes();
  FloatVec left[kRows];
  FloatVec right[kRows];
  for (int r = 0; r < kRows; ++r) {
    left[r] = kAccumulate ? load(c + r * c_stride) : splat(0);
    right[r] = kAccumulate ? load(c + r * c_stride + n) : splat(0);
  }
  for (int64_t k = 0; k < depth; ++k) {
    const FloatVec b_left = load(b + k * b_stride);
    const FloatVec b_right = load(b + k * b_stride + n);
    const float* column = a.data + k * a.k_step;
    for (int r = 0; r < kRows; ++r) {
      const FloatVec x = splat(column[r * a.row_step]);
      left[r] = hn::MulAdd(x, b_left, left[r]);
      right[r] = hn::MulAdd(x, b_right, right[r]);
    }
  }
  for (int r = 0; r < kRows; ++r) {
    store(left[r], c + r * c_stride);
    store(right[r], c + r * c_stride + n);
  }
}

// As above for 1 <= rows <= kRows.
template <int kRows, bool kAccumulate>
HWY_INLINE void product_rows(int rows, Operand a, const float* b, int64_t b_stride, int64_t depth,
                             float* c, int64_t c_stride) {
  if constexpr (kRows > 1) {
    if (rows < kRows) {
      return product_rows<kRows - 1, kAccumulate>(rows, a, b, b_stride, depth, c, c_stride);
    }
  }
  product_panel<kRows, kAccumulate>(a, b, b_stride, depth, c, c_stride);
}

// Causal shape of a product on the diagonal tile.
enum class Triangle : uint8_t {
  kNone,       // all of it
  kColsFrom,   // only columns >= row are needed (rounded out to panels)
  kDepthTo,    // a(row, k) is zero for k > row
  kDepthFrom,  // a(row, k) is zero for k < row
};

struct Product {
  Operand a;
  const float* b;  // [depth, cols]
  float* c;        // [rows, cols]
  int64_t b_stride, c_stride;
  int64_t rows, cols, depth;  // cols is a multiple of panel_cols()
  Triangle triangle = Triangle::kNone;
};

template <bool kAccumulate>
HWY_NOINLINE void product(const Product& p) {
  for (int64_t col = 0; col < p.cols; col += panel_cols()) {
    for (int64_t row = 0; row < p.rows; row += kMaxRows) {
      const auto rows = static_cast<int>(HWY_MIN(p.rows - row, kMaxRows));
      if (p.triangle == Triangle::kColsFrom && col + panel_cols() <= row) {
        continue;
      }
      const int64_t first = p.triangle == Triangle::kDepthFrom ? row : 0;
      const int64_t last =
          p.triangle == Triangle::kDepthTo ? HWY_MIN(p.depth, row + rows) : p.depth;
      const Operand a{p.a.data + row * p.a.row_step + first * p.a.k_step, p.a.row_step, p.a.k_step};
      product_rows<kMaxRows, kAccumulate>(rows, a, p.b + first * p.b_stride + col, p.b_stride,
                                          last - first, p.c + row * p.c_stride + col, p.c_stride);
    }
  }
}

// Rows of `dim` elements as f32 times factor, padded with zeros to [padded_rows, padded_dim].
struct TileShape {
  int64_t rows, dim, padded_rows, padded_dim;
};

template <typename T>
HWY_NOINLINE void pack_rows(const T* source, int64_t stride, const TileShape& shape, float factor,
                            float* packed) {
  for (int64_t r = 0; r < shape.padded_rows; ++r) {
    float* row = packed + r * shape.padded_dim;
    const int64_t dim = r < shape.rows ? shape.dim : 0;
    for_each_vector(dim, [&](int64_t i, auto io) HWY_ATTR {
      io.put(hn::Mul(io.get(source + r * stride + i), splat(factor)), row + i);
    });
    for (int64_t i = dim; i < shape.padded_dim; ++i) {
      row[i] = 0;
    }
  }
}

// to[dim, kTile] = from[kTile, dim] transposed, in blocks of 4 x 4 where there are
// vectors; dim is a multiple of panel_cols().
inline HWY_NOINLINE void transpose_tile(const float* from, int64_t dim, float* to) {
#if HWY_TARGET == HWY_SCALAR
  for (int64_t c = 0; c < dim; ++c) {
    for (int64_t r = 0; r < kTile; ++r) {
      to[c * kTile + r] = from[r * dim + c];
    }
  }
#else
  const hn::Full128<float> d;
  for (int64_t r = 0; r < kTile; r += 4) {
    for (int64_t c = 0; c < dim; c += 4) {
      const float* in = from + r * dim + c;
      const auto row0 = hn::LoadU(d, in);
      const auto row1 = hn::LoadU(d, in + dim);
      const auto row2 = hn::LoadU(d, in + 2 * dim);
      const auto row3 = hn::LoadU(d, in + 3 * dim);
      const auto even_low = hn::InterleaveLower(d, row0, row2);
      const auto odd_low = hn::InterleaveLower(d, row1, row3);
      const auto even_high = hn::InterleaveUpper(d, row0, row2);
      const auto odd_high = hn::InterleaveUpper(d, row1, row3);
      float* out = to + c * kTile + r;
      hn::StoreU(hn::InterleaveLower(d, even_low, odd_low), d, out);
      hn::StoreU(hn::InterleaveUpper(d, even_low, odd_low), d, out + kTile);
      hn::StoreU(hn::InterleaveLower(d, even_high, odd_high), d, out + 2 * kTile);
      hn::StoreU(hn::InterleaveUpper(d, even_high, odd_high), d, out + 3 * kTile);
    }
  }
#endif
}

}  // namespace plait::cpu::fast::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // PLAIT_DEVICE_CPU_FAST_ATTENTION_TILE_INL_H_
