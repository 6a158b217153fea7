// The host's CPU as a device: memory is the host's, a stream does its work at once.
#pragma once

#include <memory>
#include <string>

#include "base/thread_pool.h"
#include "device/caching_allocator.h"
#include "device/cpu/cpu_kernels.h"
#include "device/cpu/host_memory.h"
#include "device/device.h"

namespace plait::cpu {

// Copies on the pool's threads. Events have always passed.
class CpuStream final : public Stream {
 public:
  explicit CpuStream(ThreadPool& pool) : pool_(pool) {}
  void copy_to_device(DevicePtr destination, const void* source, int64_t bytes) override;
  void copy_to_host(void* destination, DevicePtr source, int64_t bytes) override;
  void copy(DevicePtr destination, DevicePtr source, int64_t bytes) override;
  void zero(DevicePtr destination, int64_t bytes) override;
  Event record() override { return {}; }
  void wait(const Event& event) override { event.wait(); }
  void synchronize() override {}

 private:
  ThreadPool& pool_;
};

class CpuDevice final : public Device {
 public:
  explicit CpuDevice(const DeviceOptions& options);
  const std::string& name() const override { return name_; }
  Stream& stream() override { return stream_; }
  Kernels& kernels() override { return kernels_; }
  std::byte* host_view(DevicePtr ptr) override { return ptr.as<std::byte>(); }
  void populate(DevicePtr ptr, int64_t bytes) override;

 private:
  DevicePtr allocate(int64_t bytes) override;
  void deallocate(DevicePtr ptr, int64_t bytes) noexcept override;

  const std::string name_ = "cpu";
  HostMemory memory_;
  CachingAllocator allocator_;
  ThreadPool pool_;
  CpuStream stream_;
  CpuKernels kernels_;
};

}  // namespace plait::cpu
