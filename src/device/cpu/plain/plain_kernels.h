// Every operator of kernels.h but matmul as a simple loop on one thread, for all element types.
// The fast versions are tested against these. Sums run in double, stored values round once.
// Pointers are host addresses.
#pragma once

#include "device/kernels.h"

namespace plait::cpu::plain {

void rms_norm_forward(const RmsNormForwardArgs& args);
void rms_norm_backward(const RmsNormBackwardArgs& args);
void rope(const RopeArgs& args);
void attention_forward(const AttentionForwardArgs& args);
void attention_backward(const AttentionBackwardArgs& args);
void swiglu_forward(const SwigluForwardArgs& args);
void swiglu_backward(const SwigluBackwardArgs& args);
void embedding_forward(const EmbeddingForwardArgs& args);
void embedding_backward(const EmbeddingBackwardArgs& args);
void row_max(const RowMaxArgs& args);
void sum_exp(const SumExpArgs& args);
void cross_entropy_loss(const CrossEntropyLossArgs& args);
void cross_entropy_backward(const CrossEntropyBackwardArgs& args);
void add(const AddArgs& args);
void add_bias(const AddBiasArgs& args);
void column_sum(const ColumnSumArgs& args);
void cast(const CastArgs& args);
void scale(const ScaleArgs& args);
void sum_squares(const SumSquaresArgs& args);
void adamw(const AdamwArgs& args);

}  // namespace plait::cpu::plain
