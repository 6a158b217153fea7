// y = x W^T (+ b), W stored [out, in] as HF does. Shapes: T tokens, I in, O out features.
#pragma once

#include "tensor/tensor.h"

namespace plait {

// y_TO = x_TI w_OI^T (+ bias_O if it is not empty).
void linear_forward(const Tensor& x_TI, const Tensor& w_OI, const Tensor& bias_O, Tensor& y_TO);

// grad_x_TI = grad_y_TO w_OI.
void linear_backward_input(const Tensor& grad_y_TO, const Tensor& w_OI, Tensor& grad_x_TI);

// grad_w_OI (f32) = grad_y_TO^T x_TI, added to what is there if `accumulate`.
void linear_backward_weight(const Tensor& grad_y_TO, const Tensor& x_TI, Tensor& grad_w_OI,
                            bool accumulate);

// grad_bias_O (f32) += column sums of grad_y_TO. Does nothing if grad_bias_O is empty.
void linear_backward_bias(const Tensor& grad_y_TO, Tensor& grad_bias_O);

}  // namespace plait
