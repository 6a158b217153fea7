#include "timed_world.h"

#include "base/clock.h"

namespace plait {

template <typename Args>
void TimedKernels::timed(const char* name, void (Kernels::*kernel)(Stream&, const Args&),
                         Stream& stream, const Args& args) {
  const double start = now_s();
  (kernels_.*kernel)(stream, args);
  times_.add(name, now_s() - start);
}

void TimedKernels::matmul(Stream& stream, const MatmulArgs& args) {
  timed("matmul", &Kernels::matmul, stream, args);
}

void TimedKernels::rms_norm_forward(Stream& stream, const RmsNormForwardArgs& args) {
  timed("rms_norm_forward", &Kernels::rms_norm_forward, stream, args);
}

void TimedKernels::rms_norm_backward(Stream& stream, const RmsNormBackwardArgs& args) {
  timed("rms_norm_backward", &Kernels::rms_norm_backward, stream, args);
}

void TimedKernels::rope(Stream& stream, const RopeArgs& args) {
  timed("rope", &Kernels::rope, stream, args);
}

void TimedKernels::attention_forward(Stream& stream, const AttentionForwardArgs& args) {
  timed("attention_forward", &Kernels::attention_forward, stream, args);
}

void TimedKernels::attention_backward(Stream& stream, const AttentionBackwardArgs& args) {
  timed("attention_backward", &Kernels::attention_backward, stream, args);
}

void TimedKernels::swiglu_forward(Stream& stream, const SwigluForwardArgs& args) {
  timed("swiglu_forward", &Kernels::swiglu_forward, stream, args);
}

void TimedKernels::swiglu_backward(Stream& stream, const SwigluBackwardArgs& args) {
  timed("swiglu_backward", &Kernels::swiglu_backward, stream, args);
}

void TimedKernels::embedding_forward(Stream& stream, const EmbeddingForwardArgs& args) {
  timed("embedding_forward", &Kernels::embedding_forward, stream, args);
}

void TimedKernels::embedding_backward(Stream& stream, const EmbeddingBackwardArgs& args) {
  timed("embedding_backward", &Kernels::embedding_backward, stream, args);
}

void TimedKernels::row_max(Stream& stream, const RowMaxArgs& args) {
  timed("row_max", &Kernels::row_max, stream, args);
}

void TimedKernels::sum_exp(Stream& stream, const SumExpArgs& args) {
  timed("sum_exp", &Kernels::sum_exp, stream, args);
}

void TimedKernels::cross_entropy_loss(Stream& stream, const CrossEntropyLossArgs& args) {
  timed("cross_entropy_loss", &Kernels::cross_entropy_loss, stream, args);
}

void TimedKernels::cross_entropy_backward(Stream& stream, const CrossEntropyBackwardArgs& args) {
  timed("cross_entropy_backward", &Kernels::cross_entropy_backward, stream, args);
}

void TimedKernels::add(Stream& stream, const AddArgs& args) {
  timed("add", &Kernels::add, stream, args);
}

void TimedKernels::add_bias(Stream& stream, const AddBiasArgs& args) {
  timed("add_bias", &Kernels::add_bias, stream, args);
}

void TimedKernels::column_sum(Stream& stream, const ColumnSumArgs& args) {
  timed("column_sum", &Kernels::column_sum, stream, args);
}

void TimedKernels::cast(Stream& stream, const CastArgs& args) {
  timed("cast", &Kernels::cast, stream, args);
}

void TimedKernels::scale(Stream& stream, const ScaleArgs& args) {
  timed("scale", &Kernels::scale, stream, args);
}

void TimedKernels::sum_squares(Stream& stream, const SumSquaresArgs& args) {
  timed("sum_squares", &Kernels::sum_squares, stream, args);
}

void TimedKernels::adamw(Stream& stream, const AdamwArgs& args) {
  timed("adamw", &Kernels::adamw, stream, args);
}

void TimedKernels::pack_weight(Stream& stream, const PackWeightArgs& args) {
  timed("pack_weight", &Kernels::pack_weight, stream, args);
}

void TimedKernels::matmul_packed(Stream& stream, const MatmulPackedArgs& args) {
  timed("matmul_packed", &Kernels::matmul_packed, stream, args);
}

void TimedKernels::embedding_packed(Stream& stream, const EmbeddingPackedArgs& args) {
  timed("embedding_packed", &Kernels::embedding_packed, stream, args);
}

void TimedKernels::norm_rows(Stream& stream, const NormRowsArgs& args) {
  timed("norm_rows", &Kernels::norm_rows, stream, args);
}

void TimedKernels::prepare_qkv(Stream& stream, const PrepareQkvArgs& args) {
  timed("prepare_qkv", &Kernels::prepare_qkv, stream, args);
}

void TimedKernels::paged_attention(Stream& stream, const PagedAttentionArgs& args) {
  timed("paged_attention", &Kernels::paged_attention, stream, args);
}

void TimedKernels::row_argmax(Stream& stream, const RowArgmaxArgs& args) {
  timed("row_argmax", &Kernels::row_argmax, stream, args);
}

DevicePtr TimedDevice::allocate(int64_t bytes) {
  auto buffer = std::make_unique<Buffer>(device_, bytes, MemoryCategory::kWorkspace);
  const DevicePtr ptr = buffer->ptr();
  const std::scoped_lock lock(mutex_);
  buffers_[ptr.as<void>()] = std::move(buffer);
  return ptr;
}

void TimedDevice::deallocate(DevicePtr ptr, int64_t /*bytes*/) noexcept {
  const std::scoped_lock lock(mutex_);
  buffers_.erase(ptr.as<void>());
}

}  // namespace plait
