// Device memory that the host cannot reach by its device addresses.
#pragma once

#include <cstddef>
#include <cstdint>

#include "device/caching_allocator.h"
#include "device/device_ptr.h"

namespace plait::guard {

// Two address ranges of one size, reserved at construction: device addresses, which have no access
// rights, and the memory itself at a fixed distance. Memory is taken as it is handed out and filled
// with 0xff bytes (a NaN in every float type), so that reading it uninitialised shows. Blocks are
// never given to another size: queued work may still use them.
class GuardMemory final : public BlockSource {
 public:
  // Errors: kResourceExhausted when not even 1 GiB of addresses can be reserved.
  GuardMemory();
  ~GuardMemory() override;
  GuardMemory(const GuardMemory&) = delete;
  GuardMemory& operator=(const GuardMemory&) = delete;

  std::byte* acquire(int64_t bytes) override;  // a device address
  void release(std::byte* /*block*/, int64_t /*bytes*/) noexcept override {}
  int64_t available_bytes() const override { return reserved_bytes_ - used_bytes_; }

  // Where the memory of a device address is; null stays null. Any other address is a caller's bug:
  // most likely host memory passed to a kernel.
  DevicePtr translate(DevicePtr ptr) const;

 private:
  std::byte* base_ = nullptr;
  int64_t reserved_bytes_ = 0;  // of each of the two ranges
  int64_t used_bytes_ = 0;
};

}  // namespace plait::guard
