// The operators with SIMD instructions chosen at run time (Highway) and several threads. The
// results do not depend on the number of threads. Pointers are host addresses.
#pragma once

#include "base/thread_pool.h"
#include "device/kernels.h"

namespace plait::cpu::fast {

void rms_norm_forward(const RmsNormForwardArgs& args, ThreadPool& pool);
void rms_norm_backward(const RmsNormBackwardArgs& args, ThreadPool& pool);
void rope(const RopeArgs& args, ThreadPool& pool);
void attention_forward(const AttentionForwardArgs& args, ThreadPool& pool);
void attention_backward(const AttentionBackwardArgs& args, ThreadPool& pool);
void swiglu_forward(const SwigluForwardArgs& args, ThreadPool& pool);
void swiglu_backward(const SwigluBackwardArgs& args, ThreadPool& pool);
void embedding_forward(const EmbeddingForwardArgs& args, ThreadPool& pool);
void embedding_backward(const EmbeddingBackwardArgs& args, ThreadPool& pool);
void row_max(const RowMaxArgs& args, ThreadPool& pool);
void sum_exp(const SumExpArgs& args, ThreadPool& pool);
void cross_entropy_backward(const CrossEntropyBackwardArgs& args, ThreadPool& pool);
void add(const AddArgs& args, ThreadPool& pool);
void add_bias(const AddBiasArgs& args, ThreadPool& pool);
void column_sum(const ColumnSumArgs& args, ThreadPool& pool);
void cast(const CastArgs& args, ThreadPool& pool);
void scale(const ScaleArgs& args, ThreadPool& pool);
void sum_squares(const SumSquaresArgs& args, ThreadPool& pool);
void adamw(const AdamwArgs& args, ThreadPool& pool);

}  // namespace plait::cpu::fast
