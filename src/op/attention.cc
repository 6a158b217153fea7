#include "op/attention.h"

#include <cmath>

namespace plait {

void rope(const Columns& x, const RopeTable& table, const RopeOptions& options) {
  CHECK_EQ(x.count % options.head_dim, int64_t{0});
  CHECK_EQ(x.rows % options.seq_len, int64_t{0});
  CHECK_LE(options.seq_len, table.cos.dim(0));
  CHECK_EQ(table.cos.dim(1) * 2, options.head_dim);
  Device& device = table.cos.device();
  device.kernels().rope(device.stream(), {.x = x.ptr,
                                          .cos = table.cos.ptr(),
                                          .sin = table.sin.ptr(),
                                          .rows = x.rows,
                                          .seq_len = options.seq_len,
                                          .heads = x.count / options.head_dim,
                                          .head_dim = options.head_dim,
                                          .x_stride = x.stride,
                                          .inverse = options.inverse,
                                          .dtype = x.dtype});
}

void attention_forward(const QkvColumns& qkv, const AttentionShape& shape, Tensor& out_TD,
                       Tensor& lse_HT) {
  CHECK_EQ(qkv.q.count, out_TD.dim(1));
  CHECK_EQ(qkv.k.count, qkv.v.count);
  CHECK_EQ(qkv.q.rows % shape.seq_len, int64_t{0});
  Device& device = out_TD.device();
  device.kernels().attention_forward(device.stream(),
                                     {.q = qkv.q.ptr,
                                      .k = qkv.k.ptr,
                                      .v = qkv.v.ptr,
                                      .out = out_TD.ptr(),
                                      .lse = lse_HT.ptr(),
                                      .batch = qkv.q.rows / shape.seq_len,
                                      .seq_len = shape.seq_len,
                                      .heads = qkv.q.count / shape.head_dim,
                                      .kv_heads = qkv.k.count / shape.head_dim,
                                      .head_dim = shape.head_dim,
                                      .q_stride = qkv.q.stride,
                                      .k_stride = qkv.k.stride,
                                      .v_stride = qkv.v.stride,
                                      .out_stride = out_TD.dim(1),
                                      .scale = 1.0F / std::sqrt(static_cast<float>(shape.head_dim)),
                                      .dtype = out_TD.dtype()});
}

void attention_backward(const AttentionSaved& saved, const AttentionShape& shape,
                        const Tensor& grad_out_TD, const QkvColumns& grad, Tensor& scratch_HT) {
  const QkvColumns& qkv = saved.qkv;
  CHECK_EQ(grad_out_TD.dim(1), qkv.q.count);
  CHECK_EQ(grad.q.count, qkv.q.count);
  CHECK_EQ(grad.k.count, qkv.k.count);
  CHECK_EQ(scratch_HT.count(), saved.lse_HT.count());
  Device& device = grad_out_TD.device();
  AttentionBackwardArgs args;
  args.q = qkv.q.ptr;
  args.k = qkv.k.ptr;
  args.v = qkv.v.ptr;
  args.out = saved.out_TD.ptr();
  args.lse = saved.lse_HT.ptr();
  args.grad_out = grad_out_TD.ptr();
  args.grad_q = grad.q.ptr;
  args.grad_k = grad.k.ptr;
  args.grad_v = grad.v.ptr;
  args.scratch = scratch_HT.ptr();
  args.batch = qkv.q.rows / shape.seq_len;
  args.seq_len = shape.seq_len;
  args.heads = qkv.q.count / shape.head_dim;
  args.kv_heads = qkv.k.count / shape.head_dim;
  args.head_dim = shape.head_dim;
  args.q_stride = qkv.q.stride;
  args.k_stride = qkv.k.stride;
  args.v_stride = qkv.v.stride;
  args.out_stride = saved.out_TD.dim(1);
  args.grad_out_stride = grad_out_TD.dim(1);
  args.grad_q_stride = grad.q.stride;
  args.grad_k_stride = grad.k.stride;
  args.grad_v_stride = grad.v.stride;
  args.scale = 1.0F / std::sqrt(static_cast<float>(shape.head_dim));
  args.dtype = grad_out_TD.dtype();
  device.kernels().attention_backward(device.stream(), args);
}

}  // namespace plait
