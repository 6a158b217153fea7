#include "parallel/tensor/vocab_embedding.h"

#include "base/error.h"

namespace plait {

Tensor VocabParallelEmbedding::forward(const Tensor& ids_T, const Tensor& table_VD) const {
  Device& device = ids_T.device();
  const int64_t count = table_VD.dim(0);
  Tensor out_TD(device, {ids_T.count(), table_VD.dim(1)}, table_VD.dtype(),
                region_.partial_category());
  device.kernels().embedding_forward(device.stream(), {.ids = ids_T.ptr(),
                                                       .table = table_VD.ptr(),
                                                       .out = out_TD.ptr(),
                                                       .rows = ids_T.count(),
                                                       .cols = table_VD.dim(1),
                                                       .vocab_begin = count * tp_.rank(),
                                                       .vocab_count = count,
                                                       .dtype = table_VD.dtype()});
  return region_.leave_forward(std::move(out_TD));
}

void VocabParallelEmbedding::backward(const Tensor& ids_T, const Tensor& grad_TsD,
                                      Tensor& grad_table_VD) const {
  Device& device = ids_T.device();
  const Tensor grad_TD = region_.leave_backward(grad_TsD);
  CHECK_EQ(grad_TD.dim(0), ids_T.count());
  const int64_t count = grad_table_VD.dim(0);
  device.kernels().embedding_backward(device.stream(), {.ids = ids_T.ptr(),
                                                        .grad_out = grad_TD.ptr(),
                                                        .grad_table = grad_table_VD.ptr(),
                                                        .rows = ids_T.count(),
                                                        .cols = grad_table_VD.dim(1),
                                                        .vocab_begin = count * tp_.rank(),
                                                        .vocab_count = count,
                                                        .dtype = grad_TD.dtype()});
}

}  // namespace plait
