#include "model/decoder_ops.h"

namespace plait {
namespace {

struct OpRunner {
  const StepSize& size;
  const ParallelContext& context;
  Kernels& kernels;
  Stream& stream;

  void operator()(EmbeddingPackedArgs args) const {
    args.rows = size.rows;
    kernels.embedding_packed(stream, args);
  }
  void operator()(NormRowsArgs args) const {
    args.rows = size.rows;
    kernels.norm_rows(stream, args);
  }
  void operator()(MatmulPackedArgs args) const {
    args.m = size.rows;
    kernels.matmul_packed(stream, args);
  }
  void operator()(PrepareQkvArgs args) const {
    args.rows = size.rows;
    kernels.prepare_qkv(stream, args);
  }
  void operator()(PagedAttentionArgs args) const {
    args.run_count = size.runs;
    args.table_stride = size.table_stride;
    kernels.paged_attention(stream, args);
  }
  void operator()(SwigluForwardArgs args) const {
    args.rows = size.rows;
    kernels.swiglu_forward(stream, args);
  }
  void operator()(const SumRows& sum) const {
    context.tp().all_reduce({.buffer = sum.buffer, .count = size.rows * sum.cols}).wait();
  }
  void operator()(const ReceiveRows& rows) const {
    StageLink(context).receive(rows.buffer, bytes(rows.cols));
  }
  void operator()(const SendRows& rows) const {
    StageLink(context).send(rows.buffer, bytes(rows.cols));
  }
  void operator()(const AddRows& add) const {
    kernels.add(stream, {.x = add.x,
                         .other = add.delta,
                         .y = add.x,
                         .count = size.rows * add.cols,
                         .dtype = DType::kF32});
  }

 private:
  int64_t bytes(int64_t cols) const { return size.rows * cols * dtype_size(DType::kF32); }
};

}  // namespace

void run_decoder_op(const DecoderOp& op, const StepSize& size, const ParallelContext& context) {
  Device& device = context.device();
  std::visit(OpRunner{size, context, device.kernels(), device.stream()}, op);
}

}  // namespace plait
