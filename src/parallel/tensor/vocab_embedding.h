// The embedding, split by vocabulary rows over the tp group: each rank looks up the ids it holds
// and the parts are summed.
#pragma once

#include "comm/process_group.h"
#include "parallel/tensor/region.h"
#include "tensor/tensor.h"

namespace plait {

class VocabParallelEmbedding {
 public:
  VocabParallelEmbedding(ProcessGroup& tp, const TensorRegion& region) : tp_(tp), region_(region) {}

  // ids i32 [T], table [V / tp, D] -> [Ts, D]. Collective over tp.
  Tensor forward(const Tensor& ids_T, const Tensor& table_VD) const;
  // grad_table (f32) is accumulated. Collective over tp.
  void backward(const Tensor& ids_T, const Tensor& grad_TsD, Tensor& grad_table_VD) const;

 private:
  ProcessGroup& tp_;
  TensorRegion region_;
};

}  // namespace plait
