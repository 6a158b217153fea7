// A range of columns of a matrix, as kernels with row strides read it.
#pragma once

#include <cstdint>

#include "base/error.h"
#include "tensor/tensor.h"

namespace plait {

struct Columns {
  DevicePtr ptr;
  int64_t rows = 0;
  int64_t count = 0;   // columns
  int64_t stride = 0;  // elements between rows
  DType dtype = DType::kF32;
};

// Columns [begin, begin + count) of a [rows, cols] tensor. Does not own: the tensor must outlive
// it.
inline Columns columns(const Tensor& x, int64_t begin, int64_t count) {
  CHECK_EQ(x.shape().size(), size_t{2});
  CHECK(begin >= 0 && begin + count <= x.dim(1));
  return {x.ptr() + begin * dtype_size(x.dtype()), x.dim(0), count, x.dim(1), x.dtype()};
}

inline Columns columns(const Tensor& x) {
  return columns(x, 0, x.dim(1));
}

}  // namespace plait
