#include <algorithm>

#include "device/cpu/gemm_impl.h"

namespace plait::cpu {
namespace {

// A tile of c is summed in f32 over the whole of k before it is rounded.
constexpr int64_t kTileRows = 32;
constexpr int64_t kTileCols = 128;
constexpr int64_t kDepth = 64;

// Element (row, col) of op(x), where x has `stride` elements between its stored rows.
template <typename T>
float element(const void* x, int64_t stride, bool transpose, int64_t row, int64_t col) {
  const int64_t index = transpose ? col * stride + row : row * stride + col;
  return to_float(static_cast<const T*>(x)[index]);
}

template <typename In, typename Out>
void compute_tile(const GemmArgs& g, int64_t row, int64_t col) {
  const int64_t rows = std::min(kTileRows, g.m - row);
  const int64_t cols = std::min(kTileCols, g.n - col);
  float sum[kTileRows][kTileCols] = {};
  float b_block[kDepth][kTileCols] = {};
  for (int64_t k = 0; k < g.k; k += kDepth) {
    const int64_t depth = std::min(kDepth, g.k - k);
    for (int64_t p = 0; p < depth; ++p) {
      for (int64_t j = 0; j < cols; ++j) {
        b_block[p][j] = element<In>(g.b, g.b_stride, g.transpose_b, k + p, col + j);
      }
    }
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t p = 0; p < depth; ++p) {
        const float a = element<In>(g.a, g.a_stride, g.transpose_a, row + i, k + p);
        for (int64_t j = 0; j < kTileCols; ++j) {
          sum[i][j] += a * b_block[p][j];
        }
      }
    }
  }
  for (int64_t i = 0; i < rows; ++i) {
    Out* c = static_cast<Out*>(g.c) + (row + i) * g.c_stride + col;
    for (int64_t j = 0; j < cols; ++j) {
      float value = sum[i][j];
      if (g.bias != nullptr) {
        value += to_float(static_cast<const In*>(g.bias)[col + j]);
      }
      if (g.accumulate) {
        value += to_float(c[j]);
      }
      c[j] = from_float<Out>(value);
    }
  }
}

template <typename In, typename Out>
void run(const GemmArgs& g, ThreadPool& pool) {
  const int64_t tiles_n = (g.n + kTileCols - 1) / kTileCols;
  const int64_t tiles = (g.m + kTileRows - 1) / kTileRows * tiles_n;
  pool.parallel_for(tiles, 1, [&](int64_t begin, int64_t end) {
    for (int64_t tile = begin; tile < end; ++tile) {
      compute_tile<In, Out>(g, tile / tiles_n * kTileRows, tile % tiles_n * kTileCols);
    }
  });
}

template <typename In>
void run_input(const GemmArgs& g, ThreadPool& pool) {
  if (g.output_dtype == DType::kF32) {
    run<In, float>(g, pool);
  } else {
    run<In, In>(g, pool);
  }
}

}  // namespace

bool gemm_plain(const GemmArgs& args, ThreadPool& pool) {
  if (args.input_dtype == DType::kF32) {
    run_input<float>(args, pool);
  } else if (args.input_dtype == DType::kBF16) {
    run_input<BFloat16>(args, pool);
  } else {
    run_input<Float16>(args, pool);
  }
  return true;
}

}  // namespace plait::cpu
