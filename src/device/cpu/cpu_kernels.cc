#include "device/cpu/cpu_kernels.h"

#include "device/cpu/gemm.h"
#include "device/cpu/plain/plain_kernels.h"

namespace plait::cpu {

void CpuKernels::matmul(Stream& /*stream*/, const MatmulArgs& args) {
  GemmArgs gemm_args;
  gemm_args.a = args.a.as<void>();
  gemm_args.b = args.b.as<void>();
  gemm_args.c = args.c.as<void>();
  gemm_args.bias = args.bias.as<void>();
  gemm_args.m = args.m;
  gemm_args.n = args.n;
  gemm_args.k = args.k;
  gemm_args.a_stride = args.a_stride;
  gemm_args.b_stride = args.b_stride;
  gemm_args.c_stride = args.c_stride;
  gemm_args.transpose_a = args.transpose_a;
  gemm_args.transpose_b = args.transpose_b;
  gemm_args.accumulate = args.accumulate;
  gemm_args.input_dtype = args.input_dtype;
  gemm_args.output_dtype = args.output_dtype;
  gemm(gemm_args, pool_);
}

void CpuKernels::rms_norm_forward(Stream& /*stream*/, const RmsNormForwardArgs& args) {
  plain::rms_norm_forward(args);
}

void CpuKernels::rms_norm_backward(Stream& /*stream*/, const RmsNormBackwardArgs& args) {
  plain::rms_norm_backward(args);
}

void CpuKernels::rope(Stream& /*stream*/, const RopeArgs& args) {
  plain::rope(args);
}

void CpuKernels::attention_forward(Stream& /*stream*/, const AttentionForwardArgs& args) {
  plain::attention_forward(args);
}

void CpuKernels::attention_backward(Stream& /*stream*/, const AttentionBackwardArgs& args) {
  plain::attention_backward(args);
}

void CpuKernels::swiglu_forward(Stream& /*stream*/, const SwigluForwardArgs& args) {
  plain::swiglu_forward(args);
}

void CpuKernels::swiglu_backward(Stream& /*stream*/, const SwigluBackwardArgs& args) {
  plain::swiglu_backward(args);
}

void CpuKernels::embedding_forward(Stream& /*stream*/, const EmbeddingForwardArgs& args) {
  plain::embedding_forward(args);
}

void CpuKernels::embedding_backward(Stream& /*stream*/, const EmbeddingBackwardArgs& args) {
  plain::embedding_backward(args);
}

void CpuKernels::row_max(Stream& /*stream*/, const RowMaxArgs& args) {
  plain::row_max(args);
}

void CpuKernels::sum_exp(Stream& /*stream*/, const SumExpArgs& args) {
  plain::sum_exp(args);
}

void CpuKernels::cross_entropy_loss(Stream& /*stream*/, const CrossEntropyLossArgs& args) {
  plain::cross_entropy_loss(args);
}

void CpuKernels::cross_entropy_backward(Stream& /*stream*/, const CrossEntropyBackwardArgs& args) {
  plain::cross_entropy_backward(args);
}

void CpuKernels::add(Stream& /*stream*/, const AddArgs& args) {
  plain::add(args);
}

void CpuKernels::add_bias(Stream& /*stream*/, const AddBiasArgs& args) {
  plain::add_bias(args);
}

void CpuKernels::column_sum(Stream& /*stream*/, const ColumnSumArgs& args) {
  plain::column_sum(args);
}

void CpuKernels::cast(Stream& /*stream*/, const CastArgs& args) {
  plain::cast(args);
}

void CpuKernels::scale(Stream& /*stream*/, const ScaleArgs& args) {
  plain::scale(args);
}

void CpuKernels::sum_squares(Stream& /*stream*/, const SumSquaresArgs& args) {
  plain::sum_squares(args);
}

void CpuKernels::adamw(Stream& /*stream*/, const AdamwArgs& args) {
  plain::adamw(args);
}

}  // namespace plait::cpu
