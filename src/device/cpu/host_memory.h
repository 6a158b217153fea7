// Blocks of host memory from the system.
#pragma once

#include "device/caching_allocator.h"

namespace plait::cpu {

// Anonymous mappings; blocks of 2 MiB and more are aligned to and advised for huge pages. A large
// block that exceeds the free memory of the host (or of the cgroup) is refused, because the kernel
// would grant it and kill the process later.
class HostMemory final : public BlockSource {
 public:
  std::byte* acquire(int64_t bytes) override;
  void release(std::byte* block, int64_t bytes) noexcept override;
  int64_t available_bytes() const override;
};

// Has the kernel back the whole pages of [begin, begin + bytes) now; keeps their contents. Kernels
// before 5.14 do it at first use.
void populate_pages(std::byte* begin, int64_t bytes);

}  // namespace plait::cpu
