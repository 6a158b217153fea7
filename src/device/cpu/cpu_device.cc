#include "device/cpu/cpu_device.h"

#include <cstring>

namespace plait::cpu {
namespace {

// Below this, waking the team costs more than it gains.
constexpr int64_t kCopyGrainBytes = int64_t{1} << 19;
constexpr int64_t kPopulateGrainBytes = int64_t{4} << 20;

void copy_bytes(ThreadPool& pool, void* destination, const void* source, int64_t bytes) {
  pool.parallel_for(bytes, kCopyGrainBytes, [&](int64_t begin, int64_t end) {
    std::memcpy(static_cast<std::byte*>(destination) + begin,
                static_cast<const std::byte*>(source) + begin, static_cast<size_t>(end - begin));
  });
}

}  // namespace

void CpuStream::copy_to_device(DevicePtr destination, const void* source, int64_t bytes) {
  copy_bytes(pool_, destination.as<void>(), source, bytes);
}

void CpuStream::copy_to_host(void* destination, DevicePtr source, int64_t bytes) {
  copy_bytes(pool_, destination, source.as<void>(), bytes);
}

void CpuStream::copy(DevicePtr destination, DevicePtr source, int64_t bytes) {
  copy_bytes(pool_, destination.as<void>(), source.as<void>(), bytes);
}

void CpuStream::zero(DevicePtr destination, int64_t bytes) {
  pool_.parallel_for(bytes, kCopyGrainBytes, [&](int64_t begin, int64_t end) {
    std::memset(destination.as<std::byte>() + begin, 0, static_cast<size_t>(end - begin));
  });
}

CpuDevice::CpuDevice(const DeviceOptions& options)
    : allocator_(memory_),
      pool_({.num_threads = options.num_threads, .spin_us = options.spin_us}),
      stream_(pool_),
      kernels_(pool_) {}

void CpuDevice::populate(DevicePtr ptr, int64_t bytes) {
  pool_.parallel_for(bytes, kPopulateGrainBytes, [&](int64_t begin, int64_t end) {
    populate_pages(ptr.as<std::byte>() + begin, end - begin);
  });
}

DevicePtr CpuDevice::allocate(int64_t bytes) {
  return DevicePtr(allocator_.allocate(bytes));
}

void CpuDevice::deallocate(DevicePtr ptr, int64_t bytes) noexcept {
  allocator_.deallocate(ptr.as<std::byte>(), bytes);
}

}  // namespace plait::cpu
