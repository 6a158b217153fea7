#include <algorithm>
#include <vector>

#include "device/cpu/float_types.h"
#include "device/cpu/plain/plain_kernels.h"

namespace plait::cpu::plain {

void add(const AddArgs& args) {
  with_float_type(args.dtype, [&]<typename T>(T) {
    for (int64_t i = 0; i < args.count; ++i) {
      args.y.as<T>()[i] =
          from_float<T>(to_float(args.x.as<T>()[i]) + to_float(args.other.as<T>()[i]));
    }
  });
}

void add_bias(const AddBiasArgs& args) {
  with_float_type(args.dtype, [&]<typename T>(T) {
    for (int64_t r = 0; r < args.rows; ++r) {
      T* x = args.x.as<T>() + r * args.stride;
      for (int64_t c = 0; c < args.cols; ++c) {
        x[c] = from_float<T>(to_float(x[c]) + to_float(args.bias.as<T>()[c]));
      }
    }
  });
}

void column_sum(const ColumnSumArgs& args) {
  with_float_type(args.dtype, [&]<typename T>(T) {
    for (int64_t c = 0; c < args.cols; ++c) {
      double sum = 0;
      for (int64_t r = 0; r < args.rows; ++r) {
        sum += to_float(args.x.as<T>()[r * args.stride + c]);
      }
      args.out.as<float>()[c] += static_cast<float>(sum);
    }
  });
}

void cast(const CastArgs& args) {
  with_float_type(args.source_dtype, [&]<typename From>(From) {
    with_float_type(args.destination_dtype, [&]<typename To>(To) {
      for (int64_t i = 0; i < args.count; ++i) {
        args.destination.as<To>()[i] = from_float<To>(to_float(args.source.as<From>()[i]));
      }
    });
  });
}

void scale(const ScaleArgs& args) {
  for (int64_t i = 0; i < args.count; ++i) {
    args.x.as<float>()[i] *= args.factor;
  }
}

void sum_squares(const SumSquaresArgs& args) {
  double sum = 0;
  for (int64_t i = 0; i < args.count; ++i) {
    const double x = args.x.as<float>()[i];
    sum += x * x;
  }
  *args.out.as<float>() += static_cast<float>(args.weight * sum);
}

}  // namespace plait::cpu::plain
