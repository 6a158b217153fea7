#include "tensor/tensor.h"

#include <utility>

#include <fmt/ranges.h>

#include "base/error.h"

namespace plait {
namespace {

int64_t product(const std::vector<int64_t>& shape) {
  int64_t count = 1;
  for (const int64_t dim : shape) {
    count *= dim;
  }
  return count;
}

}  // namespace

Tensor::Tensor(Device& device, std::vector<int64_t> shape, DType dtype, MemoryCategory category)
    : dtype_(dtype), shape_(std::move(shape)) {
  storage_ = std::make_shared<Buffer>(device, product(shape_) * dtype_size(dtype), category);
  ptr_ = storage_->ptr();
}

int64_t Tensor::dim(int index) const {
  const int rank = static_cast<int>(shape_.size());
  CHECK(index >= -rank && index < rank);
  return shape_[static_cast<size_t>(index < 0 ? index + rank : index)];
}

int64_t Tensor::count() const {
  return product(shape_);
}

Tensor Tensor::view(int64_t offset, std::vector<int64_t> shape) const {
  CHECK_GE(offset, 0);
  CHECK_LE(offset + product(shape), count());
  Tensor result = *this;
  result.ptr_ = ptr_ + offset * dtype_size(dtype_);
  result.shape_ = std::move(shape);
  return result;
}

Tensor Tensor::reshape(std::vector<int64_t> shape) const {
  CHECK_EQ(product(shape), count());
  return view(0, std::move(shape));
}

Tensor Tensor::rows(int64_t begin, int64_t count) const {
  CHECK(!shape_.empty());
  CHECK_LE(begin + count, shape_[0]);
  std::vector<int64_t> shape = shape_;
  const int64_t row = shape_[0] == 0 ? 0 : this->count() / shape_[0];
  shape[0] = count;
  return view(begin * row, std::move(shape));
}

std::string Tensor::shape_string() const {
  return fmt::format("{}[{}]", dtype_name(dtype_), fmt::join(shape_, ", "));
}

}  // namespace plait
