// RMSNorm (Zhang & Sennrich 2019) over whole rows and over the heads of a row (QK-norm).
#pragma once

#include "op/columns.h"
#include "tensor/tensor.h"

namespace plait {

// y = x * rstd * weight over groups of weight.count() columns; rstd is f32 [rows, groups].
void rms_norm_forward(const Columns& x, const Tensor& weight, float eps, Tensor& rstd,
                      const Columns& y);

struct RmsNormBackward {
  Columns x;
  Columns grad_y;
  Columns grad_x;
  bool accumulate = false;  // add to grad_x
};
// grad_weight (f32) is accumulated.
void rms_norm_backward(const RmsNormBackward& args, const Tensor& weight, const Tensor& rstd,
                       Tensor& grad_weight);

}  // namespace plait
