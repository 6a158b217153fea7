#include "op/elementwise.h"

#include "base/error.h"

namespace plait {

void swiglu_forward(const Tensor& gate_up, Tensor& out_TF) {
  CHECK_EQ(gate_up.dim(1), 2 * out_TF.dim(1));
  Device& device = gate_up.device();
  device.kernels().swiglu_forward(device.stream(), {.gate_up = gate_up.ptr(),
                                                    .out = out_TF.ptr(),
                                                    .rows = out_TF.dim(0),
                                                    .cols = out_TF.dim(1),
                                                    .dtype = out_TF.dtype()});
}

void swiglu_backward(const Tensor& gate_up, const Tensor& grad_out_TF, Tensor& grad_gate_up) {
  CHECK_EQ(gate_up.dim(1), 2 * grad_out_TF.dim(1));
  CHECK_EQ(gate_up.count(), grad_gate_up.count());
  Device& device = gate_up.device();
  device.kernels().swiglu_backward(device.stream(), {.gate_up = gate_up.ptr(),
                                                     .grad_out = grad_out_TF.ptr(),
                                                     .grad_gate_up = grad_gate_up.ptr(),
                                                     .rows = grad_out_TF.dim(0),
                                                     .cols = grad_out_TF.dim(1),
                                                     .dtype = grad_out_TF.dtype()});
}

void add(const Tensor& x, const Tensor& other, Tensor& y) {
  CHECK_EQ(x.count(), other.count());
  CHECK_EQ(x.count(), y.count());
  Device& device = x.device();
  device.kernels().add(
      device.stream(),
      {.x = x.ptr(), .other = other.ptr(), .y = y.ptr(), .count = x.count(), .dtype = x.dtype()});
}

void add_bias(Tensor& x_TD, const Tensor& bias_D) {
  if (!bias_D) {
    return;
  }
  CHECK_EQ(x_TD.dim(1), bias_D.count());
  Device& device = x_TD.device();
  device.kernels().add_bias(device.stream(), {.x = x_TD.ptr(),
                                              .bias = bias_D.ptr(),
                                              .rows = x_TD.dim(0),
                                              .cols = x_TD.dim(1),
                                              .stride = x_TD.dim(1),
                                              .dtype = x_TD.dtype()});
}

void cast(const Tensor& source, Tensor& destination) {
  CHECK_EQ(source.count(), destination.count());
  Device& device = source.device();
  device.kernels().cast(device.stream(), {.source = source.ptr(),
                                          .destination = destination.ptr(),
                                          .count = source.count(),
                                          .source_dtype = source.dtype(),
                                          .destination_dtype = destination.dtype()});
}

}  // namespace plait
