// A contiguous, row-major array in device memory; a value that shares its storage.
//
// Shape letters used in names above this folder: B batch, L sequence, T = B * L tokens, D hidden,
// H heads, K head size, F ffn, V vocab. Letters mean the logical dim even when it is sharded.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "device/device.h"

namespace plait {

class Tensor {
 public:
  Tensor() = default;
  // Uninitialised memory of the given category.
  Tensor(Device& device, std::vector<int64_t> shape, DType dtype, MemoryCategory category);

  explicit operator bool() const { return storage_ != nullptr; }
  DevicePtr ptr() const { return ptr_; }
  // Requires: not empty.
  Device& device() const { return storage_->device(); }
  DType dtype() const { return dtype_; }
  const std::vector<int64_t>& shape() const { return shape_; }
  int64_t dim(int index) const;  // negative counts from the end
  int64_t count() const;         // elements
  int64_t bytes() const { return count() * dtype_size(dtype_); }

  // `count` elements from `offset` (both in elements) as a new shape over the same storage.
  Tensor view(int64_t offset, std::vector<int64_t> shape) const;
  // The same elements in another shape.
  Tensor reshape(std::vector<int64_t> shape) const;
  // Rows [begin, begin + count) of the first dim.
  Tensor rows(int64_t begin, int64_t count) const;

  std::string shape_string() const;  // "f32[3, 40]"

 private:
  std::shared_ptr<Buffer> storage_;
  DevicePtr ptr_;
  DType dtype_ = DType::kF32;
  std::vector<int64_t> shape_;
};

}  // namespace plait
