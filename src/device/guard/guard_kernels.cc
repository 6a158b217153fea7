#include "device/guard/guard_kernels.h"

namespace plait::guard {

template <typename Args>
void GuardKernels::enqueue(Stream& stream, Args args,
                           void (Kernels::*kernel)(Stream&, const Args&)) {
  auto& guard_stream = static_cast<GuardStream&>(stream);
  args.each_pointer([&](DevicePtr& ptr) { ptr = guard_stream.memory().translate(ptr); });
  guard_stream.enqueue([this, &guard_stream, args, kernel] { (cpu_.*kernel)(guard_stream, args); });
}

void GuardKernels::matmul(Stream& stream, const MatmulArgs& args) {
  enqueue(stream, args, &Kernels::matmul);
}

void GuardKernels::rms_norm_forward(Stream& stream, const RmsNormForwardArgs& args) {
  enqueue(stream, args, &Kernels::rms_norm_forward);
}

void GuardKernels::rms_norm_backward(Stream& stream, const RmsNormBackwardArgs& args) {
  enqueue(stream, args, &Kernels::rms_norm_backward);
}

void GuardKernels::rope(Stream& stream, const RopeArgs& args) {
  enqueue(stream, args, &Kernels::rope);
}

void GuardKernels::attention_forward(Stream& stream, const AttentionForwardArgs& args) {
  enqueue(stream, args, &Kernels::attention_forward);
}

void GuardKernels::attention_backward(Stream& stream, const AttentionBackwardArgs& args) {
  enqueue(stream, args, &Kernels::attention_backward);
}

void GuardKernels::swiglu_forward(Stream& stream, const SwigluForwardArgs& args) {
  enqueue(stream, args, &Kernels::swiglu_forward);
}

void GuardKernels::swiglu_backward(Stream& stream, const SwigluBackwardArgs& args) {
  enqueue(stream, args, &Kernels::swiglu_backward);
}

void GuardKernels::embedding_forward(Stream& stream, const EmbeddingForwardArgs& args) {
  enqueue(stream, args, &Kernels::embedding_forward);
}

void GuardKernels::embedding_backward(Stream& stream, const EmbeddingBackwardArgs& args) {
  enqueue(stream, args, &Kernels::embedding_backward);
}

void GuardKernels::row_max(Stream& stream, const RowMaxArgs& args) {
  enqueue(stream, args, &Kernels::row_max);
}

void GuardKernels::sum_exp(Stream& stream, const SumExpArgs& args) {
  enqueue(stream, args, &Kernels::sum_exp);
}

void GuardKernels::cross_entropy_loss(Stream& stream, const CrossEntropyLossArgs& args) {
  enqueue(stream, args, &Kernels::cross_entropy_loss);
}

void GuardKernels::cross_entropy_backward(Stream& stream, const CrossEntropyBackwardArgs& args) {
  enqueue(stream, args, &Kernels::cross_entropy_backward);
}

void GuardKernels::add(Stream& stream, const AddArgs& args) {
  enqueue(stream, args, &Kernels::add);
}

void GuardKernels::add_bias(Stream& stream, const AddBiasArgs& args) {
  enqueue(stream, args, &Kernels::add_bias);
}

void GuardKernels::column_sum(Stream& stream, const ColumnSumArgs& args) {
  enqueue(stream, args, &Kernels::column_sum);
}

void GuardKernels::cast(Stream& stream, const CastArgs& args) {
  enqueue(stream, args, &Kernels::cast);
}

void GuardKernels::scale(Stream& stream, const ScaleArgs& args) {
  enqueue(stream, args, &Kernels::scale);
}

void GuardKernels::sum_squares(Stream& stream, const SumSquaresArgs& args) {
  enqueue(stream, args, &Kernels::sum_squares);
}

void GuardKernels::adamw(Stream& stream, const AdamwArgs& args) {
  enqueue(stream, args, &Kernels::adamw);
}

int64_t GuardKernels::packed_weight_bytes(const PackedWeight& weight) const {
  return cpu_.packed_weight_bytes(weight);
}

int64_t GuardKernels::kv_block_bytes(const KvLayout& layout) const {
  return cpu_.kv_block_bytes(layout);
}

void GuardKernels::pack_weight(Stream& stream, const PackWeightArgs& args) {
  enqueue(stream, args, &Kernels::pack_weight);
}

void GuardKernels::matmul_packed(Stream& stream, const MatmulPackedArgs& args) {
  enqueue(stream, args, &Kernels::matmul_packed);
}

void GuardKernels::embedding_packed(Stream& stream, const EmbeddingPackedArgs& args) {
  enqueue(stream, args, &Kernels::embedding_packed);
}

void GuardKernels::norm_rows(Stream& stream, const NormRowsArgs& args) {
  enqueue(stream, args, &Kernels::norm_rows);
}

void GuardKernels::prepare_qkv(Stream& stream, const PrepareQkvArgs& args) {
  enqueue(stream, args, &Kernels::prepare_qkv);
}

void GuardKernels::paged_attention(Stream& stream, const PagedAttentionArgs& args) {
  enqueue(stream, args, &Kernels::paged_attention);
}

void GuardKernels::row_argmax(Stream& stream, const RowArgmaxArgs& args) {
  enqueue(stream, args, &Kernels::row_argmax);
}

}  // namespace plait::guard
