#include "op/linear.h"

#include "base/error.h"

namespace plait {

void linear_forward(const Tensor& x_TI, const Tensor& w_OI, const Tensor& bias_O, Tensor& y_TO) {
  CHECK_EQ(x_TI.dim(1), w_OI.dim(1));
  CHECK_EQ(y_TO.dim(0), x_TI.dim(0));
  CHECK_EQ(y_TO.dim(1), w_OI.dim(0));
  MatmulArgs args;
  args.a = x_TI.ptr();
  args.b = w_OI.ptr();
  args.c = y_TO.ptr();
  if (bias_O) {
    CHECK_EQ(bias_O.count(), w_OI.dim(0));
    args.bias = bias_O.ptr();
  }
  args.m = x_TI.dim(0);
  args.n = w_OI.dim(0);
  args.k = x_TI.dim(1);
  args.a_stride = args.k;
  args.b_stride = args.k;
  args.c_stride = args.n;
  args.transpose_b = true;
  args.input_dtype = x_TI.dtype();
  args.output_dtype = y_TO.dtype();
  Device& device = x_TI.device();
  device.kernels().matmul(device.stream(), args);
}

void linear_backward_input(const Tensor& grad_y_TO, const Tensor& w_OI, Tensor& grad_x_TI) {
  CHECK_EQ(grad_y_TO.dim(1), w_OI.dim(0));
  CHECK_EQ(grad_x_TI.dim(0), grad_y_TO.dim(0));
  CHECK_EQ(grad_x_TI.dim(1), w_OI.dim(1));
  MatmulArgs args;
  args.a = grad_y_TO.ptr();
  args.b = w_OI.ptr();
  args.c = grad_x_TI.ptr();
  args.m = grad_y_TO.dim(0);
  args.n = w_OI.dim(1);
  args.k = w_OI.dim(0);
  args.a_stride = args.k;
  args.b_stride = args.n;
  args.c_stride = args.n;
  args.input_dtype = grad_y_TO.dtype();
  args.output_dtype = grad_x_TI.dtype();
  Device& device = grad_y_TO.device();
  device.kernels().matmul(device.stream(), args);
}

void linear_backward_weight(const Tensor& grad_y_TO, const Tensor& x_TI, Tensor& grad_w_OI,
                            bool accumulate) {
  CHECK_EQ(grad_y_TO.dim(0), x_TI.dim(0));
  CHECK_EQ(grad_w_OI.dim(0), grad_y_TO.dim(1));
  CHECK_EQ(grad_w_OI.dim(1), x_TI.dim(1));
  CHECK(grad_w_OI.dtype() == DType::kF32);
  MatmulArgs args;
  args.a = grad_y_TO.ptr();
  args.b = x_TI.ptr();
  args.c = grad_w_OI.ptr();
  args.m = grad_y_TO.dim(1);
  args.n = x_TI.dim(1);
  args.k = x_TI.dim(0);
  args.a_stride = args.m;
  args.b_stride = args.n;
  args.c_stride = args.n;
  args.transpose_a = true;
  args.accumulate = accumulate;
  args.input_dtype = grad_y_TO.dtype();
  args.output_dtype = DType::kF32;
  Device& device = grad_y_TO.device();
  device.kernels().matmul(device.stream(), args);
}

void linear_backward_bias(const Tensor& grad_y_TO, Tensor& grad_bias_O) {
  if (!grad_bias_O) {
    return;
  }
  CHECK_EQ(grad_bias_O.count(), grad_y_TO.dim(1));
  Device& device = grad_y_TO.device();
  device.kernels().column_sum(device.stream(), {.x = grad_y_TO.ptr(),
                                                .out = grad_bias_O.ptr(),
                                                .rows = grad_y_TO.dim(0),
                                                .cols = grad_y_TO.dim(1),
                                                .stride = grad_y_TO.dim(1),
                                                .dtype = grad_y_TO.dtype()});
}

}  // namespace plait
