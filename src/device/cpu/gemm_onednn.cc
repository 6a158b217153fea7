// oneDNN is called on one thread at a time, by each thread of our pool for its part of c: its own
// teams (OpenMP) would spin beside the threads of other ranks in this process.
#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <unordered_map>

#include <dnnl.hpp>

#include "base/cpu_info.h"
#include "device/cpu/gemm_impl.h"

// From the OpenMP runtime that oneDNN brings; the setting belongs to the calling thread.
extern "C" void omp_set_num_threads(int num_threads);

namespace plait::cpu {
namespace {

using dnnl::memory;

void use_one_thread() {
  thread_local bool done = false;
  if (!done) {
    omp_set_num_threads(1);
    done = true;
  }
}

const char* at(const void* base, int64_t index, DType dtype) {
  return static_cast<const char*>(base) + index * dtype_size(dtype);
}

// Rows [begin, begin + count) of c, or columns.
GemmArgs rows_of(GemmArgs g, int64_t begin, int64_t count) {
  g.a = at(g.a, g.transpose_a ? begin : begin * g.a_stride, g.input_dtype);
  g.c = static_cast<char*>(g.c) + begin * g.c_stride * dtype_size(g.output_dtype);
  g.m = count;
  return g;
}

GemmArgs columns_of(GemmArgs g, int64_t begin, int64_t count) {
  g.b = at(g.b, g.transpose_b ? begin * g.b_stride : begin, g.input_dtype);
  g.c = static_cast<char*>(g.c) + begin * dtype_size(g.output_dtype);
  g.bias = g.bias == nullptr ? nullptr : at(g.bias, begin, g.input_dtype);
  g.n = count;
  return g;
}

void sgemm_part(const GemmArgs& g) {
  float* c = static_cast<float*>(g.c);
  if (g.bias != nullptr) {
    const float* bias = static_cast<const float*>(g.bias);
    for (int64_t i = 0; i < g.m; ++i) {
      float* row = c + i * g.c_stride;
      for (int64_t j = 0; j < g.n; ++j) {
        row[j] = bias[j] + (g.accumulate ? row[j] : 0);
      }
    }
  }
  dnnl::sgemm(g.transpose_a ? 'T' : 'N', g.transpose_b ? 'T' : 'N', g.m, g.n, g.k, 1.0F,
              static_cast<const float*>(g.a), g.a_stride, static_cast<const float*>(g.b),
              g.b_stride, g.accumulate || g.bias != nullptr ? 1.0F : 0.0F, c, g.c_stride);
}

// What a compiled primitive depends on.
using Key = std::tuple<int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int>;

Key key_of(const GemmArgs& g) {
  const int flags = (g.transpose_a ? 1 : 0) | (g.transpose_b ? 2 : 0) | (g.accumulate ? 4 : 0) |
                    (g.bias != nullptr ? 8 : 0) | static_cast<int>(g.input_dtype) << 4 |
                    static_cast<int>(g.output_dtype) << 8;
  return {g.m, g.n, g.k, g.a_stride, g.b_stride, g.c_stride, flags};
}

memory::data_type data_type(DType dtype) {
  return dtype == DType::kF32 ? memory::data_type::f32 : memory::data_type::bf16;
}

struct Matmul {
  memory::desc a, b, c, bias;
  dnnl::matmul primitive;  // empty if oneDNN has no fast one
};

const dnnl::engine& engine() {
  static const dnnl::engine cpu(dnnl::engine::kind::cpu, 0);
  return cpu;
}

Matmul make_matmul(const GemmArgs& g) {
  Matmul result;
  const memory::dims a_strides = {g.transpose_a ? 1 : g.a_stride, g.transpose_a ? g.a_stride : 1};
  const memory::dims b_strides = {g.transpose_b ? 1 : g.b_stride, g.transpose_b ? g.b_stride : 1};
  result.a = memory::desc({g.m, g.k}, data_type(g.input_dtype), a_strides);
  result.b = memory::desc({g.k, g.n}, data_type(g.input_dtype), b_strides);
  result.c = memory::desc({g.m, g.n}, data_type(g.output_dtype), memory::dims{g.c_stride, 1});
  dnnl::primitive_attr attributes;
  if (g.accumulate) {
    dnnl::post_ops sum;
    sum.append_sum(1.0F);
    attributes.set_post_ops(sum);
  }
  try {
    if (g.bias != nullptr) {
      result.bias = memory::desc({1, g.n}, data_type(g.input_dtype), memory::dims{g.n, 1});
    }
    const dnnl::matmul::desc desc =
        g.bias != nullptr ? dnnl::matmul::desc(result.a, result.b, result.bias, result.c)
                          : dnnl::matmul::desc(result.a, result.b, result.c);
    const dnnl::matmul::primitive_desc found(desc, attributes, engine());
    // "ref" is the reference loop, far slower than any kernel of ours.
    if (std::string(found.impl_info_str()).find("ref") == std::string::npos) {
      result.primitive = dnnl::matmul(found);
    }
  } catch (const dnnl::error&) {
    // No implementation for these types on this CPU: the primitive stays empty.
  }
  return result;
}

// Primitives of the calling thread; compiled once per shape.
const Matmul& cached_matmul(const GemmArgs& g) {
  constexpr size_t kMost = 512;
  thread_local std::map<Key, Matmul> cache;
  const Key key = key_of(g);
  auto found = cache.find(key);
  if (found == cache.end()) {
    if (cache.size() >= kMost) {
      cache.clear();
    }
    found = cache.emplace(key, make_matmul(g)).first;
  }
  return found->second;
}

void matmul_part(const GemmArgs& g) {
  const Matmul& matmul = cached_matmul(g);
  thread_local dnnl::stream stream(engine());
  const auto wrap = [](const memory::desc& desc, const void* data) {
    return memory(desc, engine(), const_cast<void*>(data));
  };
  std::unordered_map<int, memory> operands = {{DNNL_ARG_SRC, wrap(matmul.a, g.a)},
                                              {DNNL_ARG_WEIGHTS, wrap(matmul.b, g.b)},
                                              {DNNL_ARG_DST, wrap(matmul.c, g.c)}};
  if (g.bias != nullptr) {
    operands.emplace(DNNL_ARG_BIAS, wrap(matmul.bias, g.bias));
  }
  matmul.primitive.execute(stream, operands);
  stream.wait();
}

// Splits the longer side of c.
template <typename F>
void on_parts(const GemmArgs& g, ThreadPool& pool, F part) {
  const bool by_rows = g.m > g.n;
  pool.parallel_for(by_rows ? g.m : g.n, 48, [&](int64_t begin, int64_t end) {
    use_one_thread();
    part(by_rows ? rows_of(g, begin, end - begin) : columns_of(g, begin, end - begin));
  });
}

}  // namespace

bool gemm_onednn_supports(const GemmArgs& g) {
  if (g.m == 0 || g.n == 0 || g.k == 0 || g.input_dtype == DType::kF16) {
    return false;
  }
  use_one_thread();
  // Every part has a primitive if the whole has one: it hangs on the types and the CPU.
  return g.input_dtype == DType::kF32 || (cpu_info().avx512 && cached_matmul(g).primitive);
}

bool gemm_onednn_matmul(const GemmArgs& g, ThreadPool& pool) {
  use_one_thread();
  if (!cached_matmul(g).primitive) {
    return false;
  }
  on_parts(g, pool, matmul_part);
  return true;
}

bool gemm_onednn(const GemmArgs& g, ThreadPool& pool) {
  if (!gemm_onednn_supports(g)) {
    return false;
  }
  if (g.input_dtype == DType::kBF16) {
    return gemm_onednn_matmul(g, pool);
  }
  on_parts(g, pool, sgemm_part);
  return true;
}

}  // namespace plait::cpu
