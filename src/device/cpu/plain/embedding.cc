#include <algorithm>

#include "device/cpu/float_types.h"
#include "device/cpu/plain/plain_kernels.h"

namespace plait::cpu::plain {

void embedding_forward(const EmbeddingForwardArgs& args) {
  with_float_type(args.dtype, [&]<typename T>(T) {
    for (int64_t r = 0; r < args.rows; ++r) {
      const int64_t id = args.ids.as<int32_t>()[r] - args.vocab_begin;
      T* out = args.out.as<T>() + r * args.cols;
      if (id >= 0 && id < args.vocab_count) {
        std::copy_n(args.table.as<T>() + id * args.cols, args.cols, out);
      } else {
        std::fill_n(out, args.cols, T{});
      }
    }
  });
}

void embedding_backward(const EmbeddingBackwardArgs& args) {
  with_float_type(args.dtype, [&]<typename T>(T) {
    for (int64_t r = 0; r < args.rows; ++r) {
      const int64_t id = args.ids.as<int32_t>()[r] - args.vocab_begin;
      if (id < 0 || id >= args.vocab_count) {
        continue;
      }
      float* grad_table = args.grad_table.as<float>() + id * args.cols;
      for (int64_t c = 0; c < args.cols; ++c) {
        grad_table[c] += to_float(args.grad_out.as<T>()[r * args.cols + c]);
      }
    }
  });
}

}  // namespace plait::cpu::plain
