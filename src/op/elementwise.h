// SwiGLU, additions, biases and casts.
#pragma once

#include "tensor/tensor.h"

namespace plait {

// out_TF = silu(gate) * up; gate_up is [T, 2 F], gate first.
void swiglu_forward(const Tensor& gate_up, Tensor& out_TF);
// grad_gate_up may be gate_up.
void swiglu_backward(const Tensor& gate_up, const Tensor& grad_out_TF, Tensor& grad_gate_up);

// y = x + other; y may be either.
void add(const Tensor& x, const Tensor& other, Tensor& y);

// x_TD += bias_D. Does nothing if bias_D is empty.
void add_bias(Tensor& x_TD, const Tensor& bias_D);

// Converts element by element.
void cast(const Tensor& source, Tensor& destination);

}  // namespace plait
