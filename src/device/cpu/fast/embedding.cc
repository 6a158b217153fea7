#include "device/cpu/fast/fast_kernels.h"
#include "device/cpu/fast/split.h"
#include "device/cpu/fast/targets.h"
#include "device/cpu/float_types.h"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "device/cpu/fast/embedding.cc"
#include <hwy/foreach_target.h>

#include <hwy/highway.h>

#include "device/cpu/fast/simd_inl.h"

HWY_BEFORE_NAMESPACE();
namespace plait::cpu::fast::HWY_NAMESPACE {
namespace {

template <typename T>
void forward_rows(const EmbeddingForwardArgs& args, int64_t begin, int64_t end) {
  for (int64_t r = begin; r < end; ++r) {
    const int64_t id = args.ids.as<int32_t>()[r] - args.vocab_begin;
    T* out = args.out.as<T>() + r * args.cols;
    if (id >= 0 && id < args.vocab_count) {
      std::copy_n(args.table.as<T>() + id * args.cols, args.cols, out);
    } else {
      std::fill_n(out, args.cols, T{});
    }
  }
}

// Each thread takes a range of columns, so that rows with one id add up in token order.
template <typename T>
void backward_cols(const EmbeddingBackwardArgs& args, int64_t begin, int64_t end) {
  for (int64_t r = 0; r < args.rows; ++r) {
    const int64_t id = args.ids.as<int32_t>()[r] - args.vocab_begin;
    if (id < 0 || id >= args.vocab_count) {
      continue;
    }
    const T* grad_out = args.grad_out.as<T>() + r * args.cols + begin;
    float* grad_table = args.grad_table.as<float>() + id * args.cols + begin;
    for_each_vector(end - begin, [&](int64_t i, auto io) HWY_ATTR {
      io.put(hn::Add(io.get(grad_table + i), io.get(grad_out + i)), grad_table + i);
    });
  }
}

}  // namespace

void embedding_forward_simd(const EmbeddingForwardArgs& args, ThreadPool& pool) {
  with_float_type(args.dtype, [&]<typename T>(T) {
    pool.parallel_for(args.rows, grain_rows(args.cols),
                      [&](int64_t begin, int64_t end) { forward_rows<T>(args, begin, end); });
  });
}

void embedding_backward_simd(const EmbeddingBackwardArgs& args, ThreadPool& pool) {
  const int64_t grain = std::max<int64_t>(16, grain_rows(args.rows));
  with_float_type(args.dtype, [&]<typename T>(T) {
    pool.parallel_for(args.cols, grain,
                      [&](int64_t begin, int64_t end) { backward_cols<T>(args, begin, end); });
  });
}

}  // namespace plait::cpu::fast::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace plait::cpu::fast {

HWY_EXPORT(embedding_forward_simd);
HWY_EXPORT(embedding_backward_simd);

void embedding_forward(const EmbeddingForwardArgs& args, ThreadPool& pool) {
  HWY_DYNAMIC_DISPATCH(embedding_forward_simd)(args, pool);
}

void embedding_backward(const EmbeddingBackwardArgs& args, ThreadPool& pool) {
  HWY_DYNAMIC_DISPATCH(embedding_backward_simd)(args, pool);
}

}  // namespace plait::cpu::fast
#endif  // HWY_ONCE
