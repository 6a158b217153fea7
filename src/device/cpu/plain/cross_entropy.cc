#include <cmath>
#include <limits>

#include "device/cpu/float_types.h"
#include "device/cpu/plain/plain_kernels.h"

namespace plait::cpu::plain {

void row_max(const RowMaxArgs& args) {
  with_float_type(args.dtype, [&]<typename T>(T) {
    for (int64_t r = 0; r < args.rows; ++r) {
      const T* row = args.logits.as<T>() + r * args.stride;
      float max = -std::numeric_limits<float>::infinity();
      for (int64_t c = 0; c < args.cols; ++c) {
        const float x = to_float(row[c]);
        max = x > max ? x : max;  // NaN shows in sum_exp
      }
      args.max.as<float>()[r] = max;
    }
  });
}

void sum_exp(const SumExpArgs& args) {
  float* sums = args.stats.as<float>();
  float* target_logits = sums + args.rows;
  with_float_type(args.dtype, [&]<typename T>(T) {
    for (int64_t r = 0; r < args.rows; ++r) {
      const T* row = args.logits.as<T>() + r * args.stride;
      const float max = args.max.as<float>()[r];
      double sum = 0;
      for (int64_t c = 0; c < args.cols; ++c) {
        sum += std::exp(to_float(row[c]) - max);
      }
      sums[r] = static_cast<float>(sum);
      const int64_t target = args.targets.as<int32_t>()[r] - args.vocab_begin;
      const bool here = args.targets.as<int32_t>()[r] >= 0 && target >= 0 && target < args.cols;
      target_logits[r] = here ? to_float(row[target]) : 0;
    }
  });
}

void cross_entropy_loss(const CrossEntropyLossArgs& args) {
  const float* sums = args.stats.as<float>();
  const float* target_logits = sums + args.rows;
  double loss = 0;
  for (int64_t r = 0; r < args.rows; ++r) {
    if (args.targets.as<int32_t>()[r] >= 0) {
      loss += std::log(static_cast<double>(sums[r])) + args.max.as<float>()[r] - target_logits[r];
    }
  }
  *args.loss.as<float>() += static_cast<float>(loss);
}

void cross_entropy_backward(const CrossEntropyBackwardArgs& args) {
  with_float_type(args.dtype, [&]<typename T>(T) {
    for (int64_t r = 0; r < args.rows; ++r) {
      T* row = args.logits.as<T>() + r * args.stride;
      const int32_t id = args.targets.as<int32_t>()[r];
      const int64_t target = id - args.vocab_begin;
      const float max = args.max.as<float>()[r];
      const float factor = args.scale / args.stats.as<float>()[r];
      for (int64_t c = 0; c < args.padded_cols; ++c) {
        if (id < 0 || c >= args.cols) {
          row[c] = T{};
          continue;
        }
        const float softmax = std::exp(to_float(row[c]) - max) * factor;
        row[c] = from_float<T>(softmax - (c == target ? args.scale : 0.0F));
      }
    }
  });
}

}  // namespace plait::cpu::plain
