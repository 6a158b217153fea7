#include "device/guard/guard_device.h"

namespace plait::guard {

GuardDevice::GuardDevice(const DeviceOptions& options)
    : allocator_(memory_),
      pool_({.num_threads = options.num_threads, .spin_us = options.spin_us}),
      kernels_(pool_),
      stream_(memory_) {}

DevicePtr GuardDevice::allocate(int64_t bytes) {
  return DevicePtr(allocator_.allocate(bytes));
}

void GuardDevice::deallocate(DevicePtr ptr, int64_t bytes) noexcept {
  stream_.fill(ptr, 0xff, bytes);
  allocator_.deallocate(ptr.as<std::byte>(), bytes);
}

}  // namespace plait::guard
