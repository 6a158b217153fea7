// The operators on the CPU. Work is done when the call returns; the stream is not looked at, so
// other backends whose memory the host can reach may run these on their own streams.
#pragma once

#include "base/thread_pool.h"
#include "device/kernels.h"

namespace plait::cpu {

// Pointers are host addresses. One call at a time (the pool's rule).
class CpuKernels final : public Kernels {
 public:
  explicit CpuKernels(ThreadPool& pool);

  void matmul(Stream& stream, const MatmulArgs& args) override;
  void rms_norm_forward(Stream& stream, const RmsNormForwardArgs& args) override;
  void rms_norm_backward(Stream& stream, const RmsNormBackwardArgs& args) override;
  void rope(Stream& stream, const RopeArgs& args) override;
  void attention_forward(Stream& stream, const AttentionForwardArgs& args) override;
  void attention_backward(Stream& stream, const AttentionBackwardArgs& args) override;
  void swiglu_forward(Stream& stream, const SwigluForwardArgs& args) override;
  void swiglu_backward(Stream& stream, const SwigluBackwardArgs& args) override;
  void embedding_forward(Stream& stream, const EmbeddingForwardArgs& args) override;
  void embedding_backward(Stream& stream, const EmbeddingBackwardArgs& args) override;
  void row_max(Stream& stream, const RowMaxArgs& args) override;
  void sum_exp(Stream& stream, const SumExpArgs& args) override;
  void cross_entropy_loss(Stream& stream, const CrossEntropyLossArgs& args) override;
  void cross_entropy_backward(Stream& stream, const CrossEntropyBackwardArgs& args) override;
  void add(Stream& stream, const AddArgs& args) override;
  void add_bias(Stream& stream, const AddBiasArgs& args) override;
  void column_sum(Stream& stream, const ColumnSumArgs& args) override;
  void cast(Stream& stream, const CastArgs& args) override;
  void scale(Stream& stream, const ScaleArgs& args) override;
  void sum_squares(Stream& stream, const SumSquaresArgs& args) override;
  void adamw(Stream& stream, const AdamwArgs& args) override;
  int64_t packed_weight_bytes(const PackedWeight& weight) const override;
  int64_t kv_block_bytes(const KvLayout& layout) const override;
  void pack_weight(Stream& stream, const PackWeightArgs& args) override;
  void matmul_packed(Stream& stream, const MatmulPackedArgs& args) override;
  void embedding_packed(Stream& stream, const EmbeddingPackedArgs& args) override;
  void norm_rows(Stream& stream, const NormRowsArgs& args) override;
  void prepare_qkv(Stream& stream, const PrepareQkvArgs& args) override;
  void paged_attention(Stream& stream, const PagedAttentionArgs& args) override;
  void row_argmax(Stream& stream, const RowArgmaxArgs& args) override;

 private:
  ThreadPool& pool_;
};

}  // namespace plait::cpu
