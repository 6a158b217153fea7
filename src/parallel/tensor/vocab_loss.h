// Cross-entropy over a vocabulary that is split over the tp group. No rank ever sees the logits of
// another: three small reductions of [T] values do it (maximum; sum of exp and target logit).
#pragma once

#include "comm/process_group.h"
#include "tensor/tensor.h"

namespace plait {

class VocabParallelCrossEntropy {
 public:
  // vocab_size: logical columns over all ranks; what lies beyond is padding.
  VocabParallelCrossEntropy(ProcessGroup& tp, int64_t vocab_size)
      : tp_(tp), vocab_size_(vocab_size) {}

  // loss (f32, one element) += sum over the unmasked tokens of -log softmax(logits)[target]; the
  // same on every tp rank. Then, if grad_scale != 0, logits become their gradient times grad_scale,
  // in place. logits_TV is [T, padded V / tp]; targets i32 [T], negative: masked.
  // Collective over tp.
  void run(Tensor& logits_TV, const Tensor& targets_T, float grad_scale, Tensor& loss) const;

 private:
  ProcessGroup& tp_;
  int64_t vocab_size_;
};

}  // namespace plait
