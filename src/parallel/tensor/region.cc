#include "parallel/tensor/region.h"

#include "base/error.h"

namespace plait {

Tensor TensorRegion::gather(const Tensor& x) const {
  if (tp_.size() == 1 || !sp_) {
    return x;
  }
  Tensor whole(x.device(), {x.dim(0) * tp_.size(), x.dim(1)}, x.dtype(),
               MemoryCategory::kWorkspace);
  tp_.all_gather({.input = x.ptr(), .output = whole.ptr(), .count = x.count(), .dtype = x.dtype()});
  return whole;
}

Tensor TensorRegion::reduce(Tensor x, MemoryCategory category) const {
  if (tp_.size() == 1) {
    return x;
  }
  if (!sp_) {
    tp_.all_reduce({.buffer = x.ptr(), .count = x.count(), .dtype = x.dtype()});
    return x;
  }
  CHECK_EQ(x.dim(0) % tp_.size(), int64_t{0});
  Tensor part(x.device(), {x.dim(0) / tp_.size(), x.dim(1)}, x.dtype(), category);
  tp_.reduce_scatter(
      {.input = x.ptr(), .output = part.ptr(), .count = part.count(), .dtype = x.dtype()});
  return part;
}

Tensor TensorRegion::enter_forward(const Tensor& x_TsD) const {
  return gather(x_TsD);
}
Tensor TensorRegion::enter_backward(Tensor grad_TD) const {
  return reduce(std::move(grad_TD), MemoryCategory::kWorkspace);
}
Tensor TensorRegion::leave_forward(Tensor partial_TD, MemoryCategory category) const {
  return reduce(std::move(partial_TD), category);
}
MemoryCategory TensorRegion::partial_category() const {
  return tp_.size() > 1 && sp_ ? MemoryCategory::kWorkspace : MemoryCategory::kActivations;
}
Tensor TensorRegion::leave_backward(const Tensor& grad_TsD) const {
  return gather(grad_TsD);
}

}  // namespace plait
