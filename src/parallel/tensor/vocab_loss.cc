#include "parallel/tensor/vocab_loss.h"

#include <algorithm>

namespace plait {

void VocabParallelCrossEntropy::run(Tensor& logits_TV, const Tensor& targets_T, float grad_scale,
                                    Tensor& loss) const {
  Device& device = logits_TV.device();
  Kernels& kernels = device.kernels();
  Stream& stream = device.stream();
  const int64_t rows = logits_TV.dim(0);
  const int64_t padded_cols = logits_TV.dim(1);
  const int64_t vocab_begin = padded_cols * tp_.rank();
  const int64_t cols = std::clamp<int64_t>(vocab_size_ - vocab_begin, 0, padded_cols);
  Tensor max_T(device, {rows}, DType::kF32, MemoryCategory::kWorkspace);
  Tensor stats(device, {2, rows}, DType::kF32, MemoryCategory::kWorkspace);

  kernels.row_max(stream, {.logits = logits_TV.ptr(),
                           .max = max_T.ptr(),
                           .rows = rows,
                           .cols = cols,
                           .stride = padded_cols,
                           .dtype = logits_TV.dtype()});
  if (tp_.size() > 1) {
    tp_.all_reduce({.buffer = max_T.ptr(), .count = rows, .op = ReduceOp::kMax});
  }
  kernels.sum_exp(stream, {.logits = logits_TV.ptr(),
                           .max = max_T.ptr(),
                           .stats = stats.ptr(),
                           .targets = targets_T.ptr(),
                           .rows = rows,
                           .cols = cols,
                           .stride = padded_cols,
                           .vocab_begin = vocab_begin,
                           .dtype = logits_TV.dtype()});
  if (tp_.size() > 1) {
    tp_.all_reduce({.buffer = stats.ptr(), .count = 2 * rows});
  }
  kernels.cross_entropy_loss(stream, {.max = max_T.ptr(),
                                      .stats = stats.ptr(),
                                      .targets = targets_T.ptr(),
                                      .loss = loss.ptr(),
                                      .rows = rows});
  if (grad_scale == 0) {
    return;
  }
  kernels.cross_entropy_backward(stream, {.logits = logits_TV.ptr(),
                                          .max = max_T.ptr(),
                                          .stats = stats.ptr(),
                                          .targets = targets_T.ptr(),
                                          .rows = rows,
                                          .cols = cols,
                                          .padded_cols = padded_cols,
                                          .stride = padded_cols,
                                          .vocab_begin = vocab_begin,
                                          .scale = grad_scale,
                                          .dtype = logits_TV.dtype()});
}

}  // namespace plait
