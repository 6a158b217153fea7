// The CPU's operators, queued on a guard stream.
#pragma once

#include "device/cpu/cpu_kernels.h"
#include "device/guard/guard_stream.h"

namespace plait::guard {

// Requires: the stream of each call is a GuardStream. The arguments are copied and their device
// addresses translated during the call; the work is done by the stream's worker.
class GuardKernels final : public Kernels {
 public:
  explicit GuardKernels(ThreadPool& pool) : cpu_(pool) {}

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
  template <typename Args>
  void enqueue(Stream& stream, Args args, void (Kernels::*kernel)(Stream&, const Args&));

  cpu::CpuKernels cpu_;
};

}  // namespace plait::guard
