#include "op/norm.h"

namespace plait {

void rms_norm_forward(const Columns& x, const Tensor& weight, float eps, Tensor& rstd,
                      const Columns& y) {
  const int64_t cols = weight.count();
  CHECK_EQ(x.count % cols, int64_t{0});
  CHECK_EQ(x.count, y.count);
  CHECK_EQ(x.rows, y.rows);
  CHECK_EQ(rstd.count(), x.rows * (x.count / cols));
  Device& device = weight.device();
  device.kernels().rms_norm_forward(device.stream(), {.x = x.ptr,
                                                      .weight = weight.ptr(),
                                                      .y = y.ptr,
                                                      .rstd = rstd.ptr(),
                                                      .rows = x.rows,
                                                      .groups = x.count / cols,
                                                      .cols = cols,
                                                      .x_stride = x.stride,
                                                      .y_stride = y.stride,
                                                      .eps = eps,
                                                      .dtype = x.dtype});
}

void rms_norm_backward(const RmsNormBackward& args, const Tensor& weight, const Tensor& rstd,
                       Tensor& grad_weight) {
  const int64_t cols = weight.count();
  CHECK_EQ(args.x.count % cols, int64_t{0});
  CHECK_EQ(args.grad_y.count, args.x.count);
  CHECK_EQ(args.grad_x.count, args.x.count);
  CHECK_EQ(grad_weight.count(), cols);
  Device& device = weight.device();
  device.kernels().rms_norm_backward(device.stream(), {.x = args.x.ptr,
                                                       .weight = weight.ptr(),
                                                       .rstd = rstd.ptr(),
                                                       .grad_y = args.grad_y.ptr,
                                                       .grad_x = args.grad_x.ptr,
                                                       .grad_weight = grad_weight.ptr(),
                                                       .rows = args.x.rows,
                                                       .groups = args.x.count / cols,
                                                       .cols = cols,
                                                       .x_stride = args.x.stride,
                                                       .grad_y_stride = args.grad_y.stride,
                                                       .grad_x_stride = args.grad_x.stride,
                                                       .accumulate = args.accumulate,
                                                       .dtype = args.x.dtype});
}

}  // namespace plait
