#include "device/cpu/host_memory.h"

#include <sys/mman.h>

#include "base/cpu_info.h"

namespace plait::cpu {
namespace {

constexpr int64_t kHugePageBytes = int64_t{2} << 20;
// Reading the free memory costs some 50 us: only for blocks where it can matter.
constexpr int64_t kCheckedBytes = int64_t{16} << 20;

std::byte* map(int64_t bytes) {
  void* block = mmap(nullptr, static_cast<size_t>(bytes), PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return block == MAP_FAILED ? nullptr : static_cast<std::byte*>(block);
}

void unmap(std::byte* block, int64_t bytes) noexcept {
  if (bytes > 0) {
    munmap(block, static_cast<size_t>(bytes));
  }
}

}  // namespace

std::byte* HostMemory::acquire(int64_t bytes) {
  if (bytes >= kCheckedBytes && bytes > available_memory_bytes()) {
    return nullptr;
  }
  if (bytes < kHugePageBytes) {
    return map(bytes);
  }
  std::byte* block = map(bytes + kHugePageBytes);
  if (block == nullptr) {
    return nullptr;
  }
  const auto address = reinterpret_cast<uintptr_t>(block);
  const auto lead = static_cast<int64_t>(-address % kHugePageBytes);
  unmap(block, lead);
  unmap(block + lead + bytes, kHugePageBytes - lead);
  madvise(block + lead, static_cast<size_t>(bytes), MADV_HUGEPAGE);
  return block + lead;
}

void HostMemory::release(std::byte* block, int64_t bytes) noexcept {
  unmap(block, bytes);
}

int64_t HostMemory::available_bytes() const {
  return available_memory_bytes();
}

void populate_pages(std::byte* begin, int64_t bytes) {
#ifdef MADV_POPULATE_WRITE
  constexpr uintptr_t kPage = 4096;
  const auto address = reinterpret_cast<uintptr_t>(begin);
  const uintptr_t first = (address + kPage - 1) / kPage * kPage;
  const uintptr_t last = (address + static_cast<uintptr_t>(bytes)) / kPage * kPage;
  if (first < last) {
    madvise(begin + (first - address), last - first, MADV_POPULATE_WRITE);
  }
#endif
}

}  // namespace plait::cpu
