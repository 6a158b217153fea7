// A device on the host's CPU that behaves like an accelerator: streams run behind the caller, and
// host code that looks behind a device address faults. For tests of everything above device/.
#pragma once

#include <string>

#include "base/thread_pool.h"
#include "device/caching_allocator.h"
#include "device/device.h"
#include "device/guard/guard_kernels.h"
#include "device/guard/guard_memory.h"
#include "device/guard/guard_stream.h"

namespace plait::guard {

// Freed blocks are overwritten with 0xff bytes in stream order: a read after the free shows as NaN.
class GuardDevice final : public Device {
 public:
  explicit GuardDevice(const DeviceOptions& options);
  const std::string& name() const override { return name_; }
  Stream& stream() override { return stream_; }
  Kernels& kernels() override { return kernels_; }
  std::byte* host_view(DevicePtr ptr) override { return memory_.translate(ptr).as<std::byte>(); }

 private:
  DevicePtr allocate(int64_t bytes) override;
  void deallocate(DevicePtr ptr, int64_t bytes) noexcept override;

  const std::string name_ = "guard";
  GuardMemory memory_;
  CachingAllocator allocator_;
  ThreadPool pool_;
  GuardKernels kernels_;
  GuardStream stream_;
};

}  // namespace plait::guard
