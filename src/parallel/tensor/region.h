// The borders of a tensor-parallel region: where activations that are whole on every tp rank (or
// split by tokens, under sequence parallelism) become inputs of column-parallel products, and where
// the partial outputs of row-parallel products are summed (Shoeybi et al. 2019; Korthikanti et al.
// 2022). Ts tokens outside the region, T inside; Ts = T without sequence parallelism, else T / tp.
//
// Per crossing each rank sends 2 (t-1)/t (all_reduce) or (t-1)/t (gather, scatter) of the T x D
// tensor. With tp = 1 every call returns its argument. Collective over the tp group.
#pragma once

#include "comm/process_group.h"
#include "tensor/tensor.h"

namespace plait {

class TensorRegion {
 public:
  TensorRegion(ProcessGroup& tp, bool sequence_parallel) : tp_(tp), sp_(sequence_parallel) {}

  // Into the region: the identity, or all_gather over tokens.
  Tensor enter_forward(const Tensor& x_TsD) const;
  // The gradient of enter: all_reduce, or reduce_scatter. May work in place of grad_TD.
  Tensor enter_backward(Tensor grad_TD) const;
  // Out of the region: all_reduce, or reduce_scatter. May work in place of partial_TD; a new tensor
  // is of the given category.
  Tensor leave_forward(Tensor partial_TD,
                       MemoryCategory category = MemoryCategory::kActivations) const;
  // Category for a partial output whose sum is kept: workspace if the sum is a new tensor.
  MemoryCategory partial_category() const;
  // The gradient of leave: the identity, or all_gather.
  Tensor leave_backward(const Tensor& grad_TsD) const;

 private:
  Tensor gather(const Tensor& x) const;
  Tensor reduce(Tensor x, MemoryCategory category) const;

  ProcessGroup& tp_;
  bool sp_;
};

}  // namespace plait
