// Calls a template with the C++ type of a float DType.
#pragma once

#include "base/dtype.h"
#include "base/error.h"

namespace plait::cpu {

// f(T{}) with T = float, BFloat16 or Float16. Integer types are a caller's bug.
template <typename F>
void with_float_type(DType dtype, F f) {
  switch (dtype) {
    case DType::kF32:
      return f(float{});
    case DType::kBF16:
      return f(BFloat16{});
    case DType::kF16:
      return f(Float16{});
    case DType::kI32:
    case DType::kI64:
      break;
  }
  PLAIT_CHECK_MSG(false, "{} is no float type", dtype_name(dtype));
}

}  // namespace plait::cpu
