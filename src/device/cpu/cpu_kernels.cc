#include "device/cpu/cpu_kernels.h"

#include "device/cpu/fast/fast_kernels.h"
#include "device/cpu/fast/isa.h"
#include "device/cpu/gemm.h"
#include "device/cpu/plain/plain_kernels.h"
#include "device/cpu/serve/layout.h"
#include "device/cpu/serve/serve.h"

namespace plait::cpu {

CpuKernels::CpuKernels(ThreadPool& pool) : pool_(pool) {
  fast::limit_isa();
}

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
  fast::rms_norm_forward(args, pool_);
}

void CpuKernels::rms_norm_backward(Stream& /*stream*/, const RmsNormBackwardArgs& args) {
  fast::rms_norm_backward(args, pool_);
}

void CpuKernels::rope(Stream& /*stream*/, const RopeArgs& args) {
  fast::rope(args, pool_);
}

void CpuKernels::attention_forward(Stream& /*stream*/, const AttentionForwardArgs& args) {
  fast::attention_forward(args, pool_);
}

void CpuKernels::attention_backward(Stream& /*stream*/, const AttentionBackwardArgs& args) {
  fast::attention_backward(args, pool_);
}

void CpuKernels::swiglu_forward(Stream& /*stream*/, const SwigluForwardArgs& args) {
  fast::swiglu_forward(args, pool_);
}

void CpuKernels::swiglu_backward(Stream& /*stream*/, const SwigluBackwardArgs& args) {
  fast::swiglu_backward(args, pool_);
}

void CpuKernels::embedding_forward(Stream& /*stream*/, const EmbeddingForwardArgs& args) {
  fast::embedding_forward(args, pool_);
}

void CpuKernels::embedding_backward(Stream& /*stream*/, const EmbeddingBackwardArgs& args) {
  fast::embedding_backward(args, pool_);
}

void CpuKernels::row_max(Stream& /*stream*/, const RowMaxArgs& args) {
  fast::row_max(args, pool_);
}

void CpuKernels::sum_exp(Stream& /*stream*/, const SumExpArgs& args) {
  fast::sum_exp(args, pool_);
}

void CpuKernels::cross_entropy_loss(Stream& /*stream*/, const CrossEntropyLossArgs& args) {
  plain::cross_entropy_loss(args);
}

void CpuKernels::cross_entropy_backward(Stream& /*stream*/, const CrossEntropyBackwardArgs& args) {
  fast::cross_entropy_backward(args, pool_);
}

void CpuKernels::add(Stream& /*stream*/, const AddArgs& args) {
  fast::add(args, pool_);
}

void CpuKernels::add_bias(Stream& /*stream*/, const AddBiasArgs& args) {
  fast::add_bias(args, pool_);
}

void CpuKernels::column_sum(Stream& /*stream*/, const ColumnSumArgs& args) {
  fast::column_sum(args, pool_);
}

void CpuKernels::cast(Stream& /*stream*/, const CastArgs& args) {
  fast::cast(args, pool_);
}

void CpuKernels::scale(Stream& /*stream*/, const ScaleArgs& args) {
  fast::scale(args, pool_);
}

void CpuKernels::sum_squares(Stream& /*stream*/, const SumSquaresArgs& args) {
  fast::sum_squares(args, pool_);
}

void CpuKernels::adamw(Stream& /*stream*/, const AdamwArgs& args) {
  fast::adamw(args, pool_);
}

int64_t CpuKernels::packed_weight_bytes(const PackedWeight& weight) const {
  return serve::packed_bytes(weight);
}

int64_t CpuKernels::kv_block_bytes(const KvLayout& layout) const {
  return serve::kv_block_bytes(layout);
}

void CpuKernels::pack_weight(Stream& /*stream*/, const PackWeightArgs& args) {
  serve::pack_weight(args, pool_);
}

void CpuKernels::matmul_packed(Stream& /*stream*/, const MatmulPackedArgs& args) {
  serve::matmul_packed(args, pool_);
}

void CpuKernels::embedding_packed(Stream& /*stream*/, const EmbeddingPackedArgs& args) {
  serve::embedding_packed(args, pool_);
}

void CpuKernels::norm_rows(Stream& /*stream*/, const NormRowsArgs& args) {
  serve::norm_rows(args, pool_);
}

void CpuKernels::prepare_qkv(Stream& /*stream*/, const PrepareQkvArgs& args) {
  serve::prepare_qkv(args, pool_);
}

void CpuKernels::paged_attention(Stream& /*stream*/, const PagedAttentionArgs& args) {
  serve::paged_attention(args, pool_);
}

void CpuKernels::row_argmax(Stream& /*stream*/, const RowArgmaxArgs& args) {
  serve::row_argmax(args, pool_);
}

}  // namespace plait::cpu
